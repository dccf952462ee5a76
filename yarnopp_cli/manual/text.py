"""The prose of the manual that comes from no declaration. Pure."""

from __future__ import annotations

from .. import errors
from ..settings.files import FILES_OF_A_DIRECTORY, SYSTEM_SITE
from ..settings.refused import REFUSED
from .roff import Block, Literal, Paragraph, Tagged


def _entry(tag: str, text: str) -> Tagged:
    return Tagged(tag, (text,))


EXIT_CODES: tuple[Tagged, ...] = (
    _entry("0", "Done; for jobs: every container ended with 0."),
    _entry(
        str(errors.EXIT_FAILURE),
        """The operation failed, or a job failed without a single exit code to return. A container's own exit code
        is returned as it is.""",
    ),
    _entry(
        str(errors.EXIT_USAGE),
        "Wrong usage, or a confirmation that could not be asked for (no terminal, no `-y`).",
    ),
    _entry(
        f"{errors.EXIT_NOT_RUNNING}, 4",
        "`yopp status`, `rm status` and `nm status` only: stopped; running in part, or unknown.",
    ),
    _entry(str(errors.EXIT_NO_SUCH), "No such application, container or node."),
    _entry(str(errors.EXIT_UNREACHABLE), "The ResourceManager or a NodeManager cannot be reached."),
    _entry(
        str(errors.EXIT_BUG),
        "A bug in yopp: the message names the file with the details. A daemon that ends with it is restarted.",
    ),
    _entry(
        str(errors.EXIT_OUTPUT_LOST),
        """A container ended with 0, but its output may be incomplete: while it ran, the file system of its logs, or of
        `--results`, was full, read-only or failing.""",
    ),
    _entry(
        str(errors.EXIT_TRY_AGAIN),
        "Preempted, or refused by a full queue, more often than the job allows: try again later. Or the files of yopp "
        "were replaced by an upgrade while the command ran: type it again.",
    ),
    _entry(str(errors.EXIT_NOT_PERMITTED), "Not permitted."),
    _entry(str(errors.EXIT_CONFIGURATION), "The configuration is wrong."),
    _entry(
        str(errors.EXIT_TIMEOUT),
        """The time of `--timeout` has passed. For `run`, `dshell` and `pi` it limits the job itself, which is
        stopped. Other commands only stop waiting, and what they waited for goes on; `wait --timeout T --kill`
        kills it.""",
    ),
    _entry(
        str(errors.EXIT_CANNOT_START),
        "A container could not be started, or a job can never begin (`--after`).",
    ),
    _entry(str(errors.EXIT_NOT_EXECUTABLE), "The command is not executable."),
    _entry(str(errors.EXIT_NOT_FOUND), "The command was not found."),
    _entry(
        str(errors.EXIT_HADOOP_USAGE),
        """Only `dshell` with `YOPP_HADOOP_EXIT=1`, which ends as Hadoop's client does: 0, 2 if the job did not
        succeed, 1 for an exception, 255 for wrong usage.""",
    ),
    _entry(
        "128+N",
        """Ended by signal N. 137 is also a container over its memory limit. 130 is Ctrl-C: the first stops a job in
        the foreground, the second kills it at once; it ends KILLED.""",
    ),
)
"""Exit codes; a test compares them with those of the errors."""

COMMON = (
    "Every command takes these options; those that do not apply to it, such as `-y` where nothing is asked, are "
    "ignored. `--timeout` ends a command with exit code 124."
)

IDS: tuple[Block, ...] = (
    Paragraph(
        """An ID is any of these: YARN's full id; `last`, the newest one, without the jobs of `run --on-end`; a number
        (`3` is application 3, `3.2` the newest container of its task 2, `3.c2` its container 2, `45455` the node with
        that port); the name of an application (`train`, or `train.2` for its task 2; of several, the running one, else
        the newest); or a suffix (`_0003`) that no other id has. The column TASK of `yopp ps` shows the numbers of
        tasks. In an application without them, such as one on a YARN cluster, `3.2` is container 2."""
    ),
    Paragraph(
        """A range names several, as far as they exist: `1-3,7`, `3.2-5`. `all` names everything that is running;
        before a change it asks for a confirmation. `-` reads ids from standard input."""
    ),
)

ENVIRONMENT: tuple[Tagged, ...] = (
    _entry("YOPP_CONF", "Configuration files or directories, separated by colons, unless `--conf` is given."),
    _entry("YOPP_RUN_DIR", "The run directory, unless `--run-dir` is given."),
    _entry("YOPP_ENGINE", "`local` or `yarn`, unless `--engine` is given."),
    _entry(
        "YOPP_RM",
        "URLs of a YARN cluster's ResourceManagers, separated by commas; without an engine it means `yarn`.",
    ),
    _entry(
        "YOPP_PORTS",
        "`auto`: `yopp up` serves the REST API and the pages on free ports, as with `--ports auto`.",
    ),
    _entry("YOPP_TIMEOUT", "How long a command may take, unless `--timeout` is given: 90s, 5m."),
    _entry(
        "NOTIFY_SOCKET",
        """The socket of a service manager; `up --foreground`, `rm run` and `nm run` report to it that they are ready,
        reload or end; see sd_notify(3).""",
    ),
    _entry("PAGER", "The program that shows help and manual pages longer than the terminal."),
    _entry("YOPP_OUTPUT", "The form of the output, unless `-o` or `--json` is given."),
    _entry(
        "HADOOP_USER_NAME",
        """The user who owns the job, for queues and shares. It counts only when root submits; in root's cluster the
        processes run as that user, too, with your environment. `run --user` does not pass the environment on.""",
    ),
    _entry("YOPP_HADOOP_EXIT", "`dshell` returns Hadoop's own exit codes, if it is not empty and not 0."),
    _entry("NO_COLOR", "No colours, if it is not empty."),
    _entry("CLICOLOR", "No colours, if it is 0."),
    _entry("CLICOLOR_FORCE", "Colours in a pipe too, if it is not empty and not 0."),
)
"""Variables that yopp reads; the variables of containers are described with the commands."""

DESCRIPTION: tuple[Block, ...] = (
    Paragraph(
        """yopp runs commands as containers, with limits on CPU and memory, on one host. It is Apache Hadoop
        YARN's ResourceManager, NodeManagers and application masters at that scale, with YARN's names for
        everything."""
    ),
    Paragraph(
        """A guaranteed container starts at once, on resources of its own. An opportunistic one may be sent to a node
        that is full: it waits in the node's queue, starts when there is room, and is preempted when a guaranteed one
        needs the room. It is then requested again, and its job does not fail."""
    ),
    Paragraph(
        """If no cluster is running, a job starts one for itself, which ends with its last job. `yopp up` starts one
        that stays."""
    ),
    Paragraph(
        """A command writes its result to standard output, and everything else to standard error. An error message has
        three lines: what happened, why, and what to type next."""
    ),
    Paragraph(
        """`-o` selects the form of the output. `json` (or `--json`) is one document, YARN's own where YARN has one,
        with filters applied, and null instead of an empty list, as in YARN (`{"containers":null}`);
        `jsonl` is one object per line, none for an empty list. `tsv` is the table for programs: the same columns
        and the same cells, never cut, separated by tabs, below a line of column keys. `wide` has more columns.
        `name` prints only ids, as does `-q`, which also silences standard error. `--columns` selects the columns
        of `table`, `wide`, `tsv` and `jsonl` (then a flat object of values by column key). Contradictions (`-q
        --json`, `--columns` with `json` or `name`) are refused before anything is done."""
    ),
)

FILES: tuple[Block, ...] = (
    _entry(f"~/.config/yopp/yarn-site.toml, {SYSTEM_SITE}", "The configuration; see `yarn-site.toml`(5)."),
    _entry(
        "/run/yopp, ~/.local/state/yopp/run",
        """The run directory of the cluster of root and of other users: sockets, pid files, logs of the daemons, and
        the configuration that the cluster runs with. `--run-dir` and `YOPP_RUN_DIR` name another directory, for
        another cluster.""",
    ),
    _entry(
        "/var/lib/yopp, ~/.local/state/yopp",
        """The state directory: output of containers in `logs/<application>/<container>/stdout` and
        `stderr`, their working directories, and the state of the NodeManagers. If the run directory was named, it is
        `state` in that directory.""",
    ),
    _entry(
        "/etc/systemd/system/yopp.service, ~/.config/systemd/user/yopp.service",
        "The unit that `yopp service install` writes; `yopp-KEY.service` for another run directory than the default.",
    ),
)

COMPATIBILITY: tuple[Block, ...] = (
    Paragraph(
        """Keys of JSON documents, exit codes, `-q`, and the keys and order of the columns of `-o tsv` do not change
        between versions; keys and columns may be added. JSON has the form of YARN's REST documents, with yopp's own
        values under `yopp`. Tables and sentences are for users and may change."""
    ),
    Paragraph(
        """With `alias hadoop=yopp yarn=yopp`, the commands in YARN's documentation of opportunistic containers work as
        they are written there. Called by a link of the name `yarn`, it prints YARN's tables, too; an alias does not
        change the name."""
    ),
)

EXAMPLES: tuple[Block, ...] = (
    Paragraph("Run a command ten times in opportunistic containers, and end with its exit code:"),
    Literal(("yopp run -n 10 -O sleep 10",)),
    Paragraph("YARN's sample job, 40 % of its 50 maps in opportunistic containers:"),
    Literal(("yopp pi -Dmapreduce.job.num-opportunistic-maps-percent=40 50 100",)),
    Paragraph("Start a cluster that stays, and look at it:"),
    Literal(("yopp up", "yopp node list", "yopp ps", "yopp logs -f last", "yopp down")),
)

SITE_DESCRIPTION: tuple[Block, ...] = (
    Paragraph(
        """The properties of yopp have YARN's names; its own begin with `yopp`. A value comes from, with increasing
        precedence: the default below; the site file; a `-D` on the command line."""
    ),
    Paragraph(
        f"""The site file is the first that exists of `~/.config/yopp/yarn-site.toml`, `{SYSTEM_SITE}` and the local
        site that comes with yopp, which enables opportunistic containers with a queue length of 10. `YOPP_CONF` names
        other files instead, and `--conf`, which may be repeated, replaces both; later files override earlier ones. A
        directory stands for the files {", ".join(f"`{name}`" for name in FILES_OF_A_DIRECTORY)} in it."""
    ),
    Paragraph(
        """Unknown properties, values of the wrong type or out of bounds, and values that contradict each other are
        errors, reported with file and line. `yopp config check` lists all errors, and `yopp config show
        --origin` shows where each value comes from."""
    ),
)

SITE_SYNTAX: tuple[Block, ...] = (
    Paragraph("The file is TOML. These four forms are equivalent:"),
    Literal(
        (
            "yarn.scheduler.maximum-allocation-mb = 4096",
            "",
            '"yarn.scheduler.maximum-allocation-mb" = 4096',
            "",
            'yarn.scheduler.maximum-allocation-mb = "4096"',
            "",
            "[yarn.scheduler]",
            "maximum-allocation-mb = 4096",
        )
    ),
    Paragraph(
        """In a text, `${name}` is replaced by another property, `${env.NAME}` by an environment variable
        (`${env.NAME:-text}` if it may be missing), `${user.name}` and `${user.home}` by those of the user, and
        `${yopp.state-dir}` by the state directory, which follows from the run directory; see `yopp`(1)."""
    ),
)

SITE_XML: tuple[Block, ...] = (
    Paragraph(
        """Hadoop's `yarn-site.xml` and `mapred-site.xml` are read as well. Properties without a meaning for yopp
        are ignored with a warning, as are the addresses of that cluster's ResourceManager. For a name that
        differs by a letter or two from a property here, or that resembles one in `yarn.resourcemanager.*` or
        `yarn.nodemanager.*`, every command that reads the file suggests the property that was probably meant. A
        value that is `final` cannot be changed by a later file, only by a `-D`. Of several directories, the
        first is used. A DOCTYPE and `xi:include` are errors."""
    ),
)

SITE_EXAMPLES: tuple[Block, ...] = (
    Paragraph(
        "Enable opportunistic containers, of which up to 10 may wait at a node, and limit containers to 4 GB:"
    ),
    Literal(
        (
            "[yarn.resourcemanager]",
            "opportunistic-container-allocation.enabled = true",
            "",
            "[yarn.nodemanager]",
            "opportunistic-containers-max-queue-length = 10",
            "",
            "[yarn.scheduler]",
            "maximum-allocation-mb = 4096",
        )
    ),
    Paragraph("Set a property for one command:"),
    Literal(("yopp pi -Dmapreduce.job.num-opportunistic-maps-percent=40 50 100",)),
)

SITE_REFUSED: tuple[Block, ...] = (
    Paragraph(
        """These have no meaning on one host and are errors, because a property without an effect would mislead. In
        Hadoop's own files they are ignored with a warning."""
    ),
    *(
        Tagged(name, (f"{refusal.because[:1].upper()}{refusal.because[1:]}.", f"Instead: {refusal.instead}."))
        for name, refusal in REFUSED.items()
    ),
)
SITE_QUEUES = (
    "Queues of guaranteed containers are configured by YARN's properties, which contain the path of the queue: "
    "<queue-path> is `root`, or the names from `root` down, separated by dots (`root.prod.web`). Without any of these "
    "properties there is one queue, `default`, with all resources. See configs/queues.toml and docs/sharing.md."
)
"""The introduction to the properties of queues."""
SITE_RESOURCE_TYPES = (
    "Beside memory and vcores, a node may have resources that are only counted: GPUs, licences, test boards. "
    "`yarn.resource-types` names the types, and this property sets how many of one a node has; <name> is its name "
    '(`"yarn.nodemanager.resource-type.yarn.io/gpu" = 2`). A container requests some with --resource NAME=N, and waits '
    "until they are free."
)
"""The introduction to the properties of resource types."""
