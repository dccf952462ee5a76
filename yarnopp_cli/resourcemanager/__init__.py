"""Theory of operation: how the ResourceManager decides, and the reasons for its structure.

The ResourceManager keeps the state of the cluster: nodes, applications, requests and allocations. It is one state
machine, as ``executor/core/__init__.py`` describes: events in, commands out, time as an argument. It starts no
process and makes no calls. Nodes, masters and clients call it; each call is an event, and its answer a command.

One step (``machine.py``)

    handle(event, now)   a table says which service answers a request; the service changes the books
    _settle()            everything that follows from what it changed, in one order
    commands             the answers of this step, to this call or to earlier ones

``RMContext.begin`` sets the time of the step, ``now``. A handler records its changes in ``changes`` (``Changes`` in
``context.py``), and does not act on them. ``_settle`` reads and empties ``changes``: it retries masters whose
container ended or ends their application, allocates containers, answers masters and nodes that have news, and ends the
waits of clients. The consequences of a change are therefore in one place, not in each handler.

Four lives (``lives.py``, ``entities.py``)

Applications, attempts, containers and nodes have transition tables, and each keeps its history; ``docs/states.md`` is
generated from the tables. Only ``RMContext.move`` changes a state, and notes the entity in ``changes.moved``. All
other facts of a container change through ``ContainerLedger``.

Records that survive the process (``state_store.py``, ``recovery.py``)

At the end of a step, every changed entity is stored before the step's other commands are performed. The next RM
recovers from these records, and from the registrations of the nodes.

Held calls (``entities.Listener``, ``machine/mailbox.py``)

A node's heartbeat and a master's allocate call may wait. The RM answers when there is news, when the wait expires, or
when the same caller sends a newer call. Answers are numbered, and news are repeated until the caller acknowledges an
answer that contained them. Neither a lost connection nor a restarted node therefore loses news. ``waits.py`` holds the
waiting calls of clients.

Deadlines (``due.py``)

Deadlines are a closed set of kinds. A contact sets no deadline: when a liveness deadline expires, the RM checks the
time of the last contact and sets the deadline again.

Allocation and preemption (``allocation.py``, ``scheduler/``)

Guaranteed containers first, by queues (``CapacityScheduler``, ``queues.py``); then opportunistic ones, over the least
loaded nodes (``yarnopp_cli.allocation``), by users' shares (``opportunistic_shares.py``). Schedulers choose, the
ledger grants. The RM preempts containers of queues above their capacity (``preemption.py``), and sheds queued
containers of users above their share. The node ends the container, and its resources are free when the node has
reported the end.

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
    AllocatorAMService               allocation.py, adoption.py (containers allocated at nodes)
    RMServerUtils,
    ContainerUpdateContext           container_updates.py
    RMAppLifetimeMonitor,
    AMLivelinessMonitor, ...         due.py

``invariants.py`` asserts the invariants; tests call it after each step.
"""
