"""Theory of operation: how one node decides, and why it is written like this.

A node has some memory and some vcores. Guaranteed containers were promised theirs by the ResourceManager, and get them
at once. Opportunistic containers were sent to wait at the node, so that whatever is idle finds work without asking
anybody: they start when something is free, and give way when a guaranteed container needs the room. All of that is one
state machine, ``ContainerScheduler`` in ``scheduler.py``. It is told what happened, and answers with what is to be
done. It starts no process and reads no clock: a thin shell (``executor.driver`` and ``executor.linux``) does that, and
the tests do it by hand, in virtual time.

The six rules of such a machine (``machine.py``)

1. It reads nothing but its arguments and itself: no clock, file, socket, process, thread, environment or global random.
   Time is an argument, in seconds, monotonic; times that people see are made from it with the offset of the wall clock
   that the machine was given when it was made. So a run can be repeated, and a test needs no sleep.
2. It never raises for what the world did. A container that cannot be started, a process that does not stop, an exit
   code that got lost: those are events. It raises InvalidTransitionError, with the container's story, for a bug.
3. Commands are performed in the order of the list that it returns. A StoreContainer stands before the command that it
   makes safe: after a crash, the record of everything that was begun is there.
4. A command that takes time ends in exactly one event: LaunchContainer in ContainerLaunched or ContainerLaunchFailed,
   PauseContainer in ContainerPaused or ContainerPauseFailed, ResumeContainer in ContainerResumed; and each launched
   container ends in one ContainerExited, which brings the ContainerLaunched of a very short one.
5. An event about a container that is unknown or has ended is dropped: something may still have been under way for it.
   An event that contradicts the state of a live container is a bug.
6. ``validate()`` asserts every invariant. Tests call it after each step.

The life of a container is a table, ``TRANSITIONS`` in ``container.py``; ``docs/states.md`` is drawn from it.

    SCHEDULED -> LAUNCHING -> RUNNING -> DONE                    an ordinary life
                              RUNNING -> PAUSING -> PAUSED -> RESUMING -> RUNNING
                   any of them -> KILLING -> DONE                SIGTERM, some patience, SIGKILL

Commands and events both move it: giving LaunchContainer makes it LAUNCHING, hearing ContainerLaunched makes it
RUNNING. A container that is told to end stays KILLING, and keeps its resources, until its processes are gone, since a
promise cannot be kept with memory that a dying process still has. The first to end a container decides the reason that
is reported.

What is accepted (``queues.py``). By default what starts at once, and as many more as the queue holds; BY_RESOURCES
takes only what fits beside all that runs and waits.

Who starts (``actions.py``, ``queues.py``). Whenever something is given back, and on each arrival, one loop runs: the
head of the guaranteed queue, as often as it fits; then opportunistic containers, in order of arrival, with what is
left after everything that waiting guaranteed ones need. An opportunistic container that does not fit may be overtaken
by later ones that do, so that one large request does not idle the node; but only ``max_overtakes`` times, so that it
starts in the end. How often it was overtaken is the number of later arrivals that were started: nothing is counted up,
and a queue of fifty thousand costs no more than one of five. Other orders (the shortest first, or the application with
the least left to do) choose among those that fit under the same bounds, so that nobody starves under them either. They
ask ``applications.py`` what this node has seen of each application. A paused container waits in the same order by its
arrival, so it resumes before whatever came later, and takes no place in the queue.

What begins without being asked about (``succession.py``). Where nobody else has a claim, a LaunchNext says ahead who
begins in the moment in which a container ends; the ContainerExited of that one names it if it did.

Who gives way (``reclaim.py``, ``victims.py``). What a guaranteed container lacks, less what is already on its way
back, is taken from opportunistic ones: the fewest that suffice, the newest of those, and all or nothing. If even all
of them would not suffice, none is touched and it waits. Other policies look at what else is lost: the least work, or
no job that is nearly done. A killed container gives back everything. A paused one gives back its vcores but not its
memory, since a stopped process keeps its pages; so where memory is short containers are killed, even under a policy of
pausing. A pause that takes too long becomes a kill, because somebody waits for it. A person's pause may take its time;
it lasts until a person ends it.

Where YARN's own rules differ, they are choices of the settings; ``configs/yarn-rules.toml`` makes all of them, and
``tests/conformance`` holds the node to Hadoop's tests under it.

What is promised and what is used (``tracker.py``). The tracker counts promises. The cgroup limits that enforce them
are worked out in ``limits.py``, from size and type alone, and written again when a container is promoted, demoted or
resized. Measurements come in as UsageSampled; where no cgroup can enforce memory, they do it here.

Why something waits (``executor/reasons.py``, ``waiting.py``). Each decision about a start returns a container, or a
``Reason``: a rule cannot refuse a start without one. Whoever reads the state of a waiting container has these decisions
asked about it, so nothing else describes the rules, and a step costs no more because they can be explained. Places in
the line are found in the same way: the queue itself is asked who would be next.

Why something happened (``executor/causes.py``). Whatever pauses, ends or refuses a container gives a ``Cause``, which
is stored and reported with its status. ``outcome.py`` makes YARN's diagnostics of it, for people; no program reads
those.

How it ends (``outcome.py``). Exit status says why (YARN's numbers), exit code says what the process left behind. A
container preempted, refused or shed has status -108 and has not failed: its owner asks again.

What is written, and a crash (``recovery.py``). Each state is stored before what it makes safe. After a crash the
records are compared with the processes: what runs is taken back, what waited waits in its old place, what ended
meanwhile is reported, what was told to end is told again. The end of a container is kept until ``forget()`` says that
it was reported. Two things do not survive: how often a waiting container was overtaken by ones that have ended since,
and the measured durations.

What is here, from the bottom up

    events.py, commands.py, machine.py   the contract; when something is due
    transitions.py, container.py         tables of states with their stories; one container
    tracker.py, estimates.py             what is allocated; how long things take, and so how long to wait
    applications.py                      what is known of each application here
    queues.py                            what waits, what is accepted, and what starts next
    succession.py                        which waiting container begins in the moment in which another one ends
    limits.py, outcome.py                pure functions: figures for the kernel; endings, and all sentences
    reclaim.py, victims.py               who gives way, how they are chosen, and what a pause gives back
    pressure.py                          when the machine is short of CPU or memory
    recovery.py                          what a record means after a crash
    book.py, actions.py                  the machine: what is here, what is done,
    pressure_actions.py, waiting.py,     what measurements lead to, what readers are told of those that wait,
    scheduler.py                         what happened
    invariants.py                        what must hold between all of these
"""
