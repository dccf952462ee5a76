"""Theory of operation: how the ResourceManager decides, and why it is written like this.

The ResourceManager keeps the cluster's books: which nodes there are, which applications run, who asks for what, who has
been given what. It is one state machine of the kind that ``executor/core/__init__.py`` describes: what happened goes
in, what shall be done comes out, time is an argument. It starts no process and calls nobody. Nodes, masters and clients
call it; each call is an event, and its answer a command.

One step (``machine.py``)

    handle(event, now)   a table says which service answers a request; the service changes the books
    _settle()            everything that follows from what it changed, in one order
    commands             the answers that came of it: now, or in a later step

``RMContext.begin`` sets the moment of the step: all that happens in it happens at ``now``. A handler says what it
changed in ``changes`` (``Changes`` in ``context.py``), and does nothing about it. ``_settle`` reads and empties it:
masters whose container ended are retried or their application ends, containers are allocated where there are asks or
room, masters and nodes that have news are answered, clients' waits end. So what follows from a change is told at one
place and not at each place that makes it.

Four lives (``lives.py``, ``entities.py``)

Applications, attempts, containers and nodes have tables of transitions, and each remembers its story;
``docs/states.md`` is made from the tables. Nobody changes a state but ``RMContext.move``, which notes the entity in
``changes.moved``. What else belongs to a container changes through ``ContainerLedger``.

What outlives the process (``state_store.py``, ``recovery.py``)

At the end of the step, what moved in it is written down before the step's other commands are performed. Its next life
goes on with that, and with what nodes tell when they register.

Held calls (``entities.Listener``, ``machine/mailbox.py``)

A node's heartbeat and a master's allocate call may wait. They are answered when there is news, when their time is over,
or when a newer call of the same caller comes. Answers are numbered, and news are repeated until the caller acknowledges
an answer that had them: so neither a lost connection nor a restarted node loses any. Clients' calls that wait are in
``waits.py``.

What is due when (``DueKind`` in ``context.py``)

Deadlines are a closed set of kinds. Liveness costs nothing where all is well: a deadline that comes looks at the last
contact and sets itself anew.

Who gets what (``allocation.py``, ``scheduler/``)

Guaranteed containers first, by queues (``CapacityScheduler``, ``queues.py``); then opportunistic ones, over the least
loaded nodes (``yarnopp_cli.allocation``), by users' shares (``opportunistic_shares.py``). Schedulers choose, the ledger
grants. Who has to give way: containers of queues above their capacity (``preemption.py``), and places in nodes' queues
of users above their share. Whatever is taken back is ended by its node, and its resources are free when the node says
so.

Where YARN's classes are

    ApplicationMasterService         services/application_master_service.py
    ClientRMService                  services/client_rm_service.py
    ResourceTrackerService           services/resource_tracker_service.py
    AdminService                     services/admin_service.py, services/queue_service.py (queues)
    ActivitiesManager                services/explain_service.py
    RMAppManager                     app_manager.py
    RMAppImpl, RMAppAttemptImpl,
    RMContainerImpl, RMNodeImpl      lives.py (states), entities.py (books), reports.py (as people see them)
    RMContext                        context.py
    RMStateStore                     state_store.py, recovery.py
    CapacityScheduler                scheduler/capacity_scheduler.py
    LeafQueue, ParentQueue,
    UsersManager                     scheduler/queues.py
    ProportionalCapacity-
    PreemptionPolicy                 scheduler/preemption.py
    OpportunisticContainerAllocator  yarnopp_cli/allocation/opportunistic.py
    NodeQueueLoadMonitor             yarnopp_cli/allocation/load_monitor.py
    QueueLimitCalculator             yarnopp_cli/allocation/rebalancing.py
    OpportunisticContainer-
    AllocatorAMService               allocation.py, container_ledger.py (containers allocated at nodes)
    RMServerUtils,
    ContainerUpdateContext           container_updates.py
    RMAppLifetimeMonitor,
    AMLivelinessMonitor, ...         context.py (``DueKind``)

What must hold between all of these is asserted in ``invariants.py``; tests call it after each step.
"""
