"""Slots: cgroups made in advance for containers, each with a resident launcher; and launchers without one.

Making a cgroup for a container and joining it takes milliseconds, most of which the kernel waits. A slot's launcher
(``launcher.py``) has joined once. A process that it starts is born in the cgroup; the launcher reports the start and
the end over a socket: nothing is made, watched or removed for a single container. A slot holds one container at a
time. Before the next one, all that is left in its cgroup is ended, and figures start from zero.

``pool.py`` starts containers in slots, ``making.py`` makes and removes slots, ``losses.py`` finds out what became of
the containers of a launcher that died, ``zygotes.py`` has the process that forks launchers, ``marks.py`` finds what is
left of both. If the node dies, its launchers continue until their containers have ended, and write the exit codes to a
journal (``journals.py``). ``trial.py`` tries one slot, for the doctor.

Decisions: launchers.
"""
