"""The prose of the manual: what no declaration says. Pure."""

from __future__ import annotations

from .. import errors
from ..settings.files import FILES_OF_A_DIRECTORY, SYSTEM_SITE
from ..settings.refused import REFUSED
from .roff import Block, Literal, Paragraph, Tagged


def _says(text: str) -> Paragraph:
    return Paragraph(" ".join(text.split()))


def _entry(tag: str, text: str) -> Tagged:
    return Tagged(tag, (" ".join(text.split()),))


EXIT_CODES: tuple[Tagged, ...] = (
    _entry("0", "Done; for jobs: every container ended with 0."),
    _entry(
        str(errors.EXIT_FAILURE),
        """The operation failed, or a job failed with no one code to show. A container's own code, whatever
        it is, is passed on as it is.""",
    ),
    _entry(
        str(errors.EXIT_USAGE), "Wrong usage, or a question that could not be asked (no terminal, no `-y`)."
    ),
    _entry(f"{errors.EXIT_NOT_RUNNING}, 4", "`yopp status` only: stopped; running in part, or unknown."),
    _entry(str(errors.EXIT_NO_SUCH), "No such application, container or node."),
    _entry(str(errors.EXIT_UNREACHABLE), "The ResourceManager or a NodeManager cannot be reached."),
    _entry(
        str(errors.EXIT_TRY_AGAIN),
        "Preempted, or refused by a full queue, more often than the job allows: try again later.",
    ),
    _entry(str(errors.EXIT_NOT_PERMITTED), "Not permitted."),
    _entry(str(errors.EXIT_CONFIGURATION), "The configuration is wrong."),
    _entry(
        str(errors.EXIT_TIMEOUT),
        """The time of `--timeout` has passed. Of `run`, `dshell` and `pi` that is the job's own: it is stopped. Other
        commands only stop waiting, and what they waited for goes on; `wait --timeout T --kill` kills it.""",
    ),
    _entry(str(errors.EXIT_CANNOT_START), "A container could not be started."),
    _entry(str(errors.EXIT_NOT_EXECUTABLE), "The command is not executable."),
    _entry(str(errors.EXIT_NOT_FOUND), "The command was not found."),
    _entry(
        str(errors.EXIT_HADOOP_USAGE),
        """Only of `dshell` with `YOPP_HADOOP_EXIT=1`, which ends as Hadoop's client does: 0, 2 where the job did not
        succeed, 1 for an exception, 255 for wrong usage.""",
    ),
    _entry(
        "128+N",
        """Ended by signal N. 137 is also a container over its memory limit, and 130 is Ctrl-C: the first asks a job in
        the foreground to stop, the second has the ResourceManager kill it at once; it ends KILLED.""",
    ),
)
"""Exit codes; a test compares their numbers with those of the errors."""

COMMON = (
    "Every command takes these, and those that would do nothing for it, such as `-y` where nothing is asked, without "
    "a word. `--timeout` ends a command with exit code 124."
)

IDS: tuple[Block, ...] = (
    Paragraph(
        """Where an ID is wanted, any of these names one: YARN's full id; `last`, the newest; a number (`3` is
        application 3, `3.2` container 2 of application 3, `45455` the node of that port); or the end of one (`_0003`)
        that no other has."""
    ),
    Paragraph(
        """Several are named by ranges (`1-3,7`, `3.2-5`: those that there are), by `all`, which means what lives and is
        asked for where something is changed, and by `-`, for the ids on standard input."""
    ),
)

ENVIRONMENT: tuple[Tagged, ...] = (
    _entry(
        "YOPP_CONF", "Configuration files or directories, with colons between, where `--conf` names none."
    ),
    _entry("YOPP_RUN_DIR", "The run directory, where `--run-dir` names none."),
    _entry("YOPP_ENGINE", "`local` or `yarn`, where `--engine` names none."),
    _entry(
        "YOPP_RM",
        "URLs of a YARN cluster's ResourceManagers, with commas between; without an engine it means `yarn`.",
    ),
    _entry(
        "YOPP_PORTS",
        "`auto`: `yopp up` serves the REST API and the pages on free ports, as with `--ports auto`.",
    ),
    _entry("YOPP_TIMEOUT", "How long a command may take, where `--timeout` is not given: 90s, 5m."),
    _entry("PAGER", "What shows help and pages of the manual that are longer than the terminal."),
    _entry("YOPP_OUTPUT", "The form of the output, where neither `-o` nor `--json` is given."),
    _entry(
        "HADOOP_USER_NAME",
        """Whose job it is, for queues and shares: heeded where root submits, and nowhere else. The processes are the
        cluster's own user's all the same.""",
    ),
    _entry("YOPP_HADOOP_EXIT", "Hadoop's own exit codes for `dshell`, if it is not empty and not 0."),
    _entry("NO_COLOR", "No colours, if it is not empty."),
    _entry("CLICOLOR", "No colours, if it is 0."),
    _entry("CLICOLOR_FORCE", "Colours in a pipe too, if it is not empty and not 0."),
)
"""Variables that yopp reads; those that containers are given are in the documents of the commands."""

DESCRIPTION: tuple[Block, ...] = (
    _says(
        """yopp runs commands as containers, with limits on CPU and memory, on one host. It is Apache Hadoop
        YARN's ResourceManager, NodeManagers and application masters at that scale, with YARN's names for
        everything."""
    ),
    _says(
        """A guaranteed container starts at once, on resources that are its own. An opportunistic one may be
        sent to a node that is full: it waits in the node's queue, starts as soon as there is room, and
        gives way when a guaranteed one needs that room. It is then asked for again, and its job does not
        fail."""
    ),
    _says(
        """A job starts a cluster for itself where none runs, and that cluster ends with its last job. `yopp
        up` starts one that stays."""
    ),
    _says(
        """The answer of a command is on the standard output, and everything else on the standard error. An
        error says in three lines what happened, why, and what to type next."""
    ),
    _says(
        """`-o` chooses the form of the answer. `json` (or `--json`) is one document, YARN's own where YARN has one,
        filters applied; `jsonl` one object a line. `tsv` is the table for programs: its columns in its order and
        the very texts of its cells, whole and with tabs between, under a line of keys. `wide` has more columns, and
        `name` only ids, as `-q` has, which is silent on the standard error, too. `--columns` chooses those of `table`,
        `wide`, `tsv` and `jsonl` (then a flat object of their values by their keys). What contradicts itself (`-q
        --json`, `--columns` with `json` or `name`) is refused before anything is done."""
    ),
)

FILES: tuple[Block, ...] = (
    _entry(f"~/.config/yopp/yarn-site.toml, {SYSTEM_SITE}", "The configuration; see `yarn-site.toml`(5)."),
    _entry(
        "/run/yopp, ~/.local/state/yopp/run",
        """The run directory of root's and of other users' cluster: sockets, pid files, logs of the daemons,
        and the configuration that the cluster runs with. `--run-dir` and `YOPP_RUN_DIR` name another, for
        another cluster.""",
    ),
    _entry(
        "/var/lib/yopp, ~/.local/state/yopp",
        """The state directory: output of containers in `logs/<application>/<container>/stdout` and
        `stderr`, their working directories, and what a NodeManager has to remember. Where the run directory
        was named, it is `state` in that directory.""",
    ),
)

COMPATIBILITY: tuple[Block, ...] = (
    _says(
        """Keys of JSON documents, exit codes, `-q`, and the keys and order of the columns of `-o tsv` do not change
        between versions; keys and columns may be added. JSON has the form of YARN's REST documents, and what is yopp's
        own stands in them under `yopp`. Tables and sentences are for people and may change."""
    ),
    _says(
        """With `alias hadoop=yopp yarn=yopp`, the commands of YARN's document on opportunistic containers
        work as they are written there."""
    ),
)

EXAMPLES: tuple[Block, ...] = (
    _says("Run a command ten times in opportunistic containers, and end with its exit code:"),
    Literal(("yopp run -n 10 -O sleep 10",)),
    _says("YARN's sample job, 40 % of its 50 maps in opportunistic containers:"),
    Literal(("yopp pi -Dmapreduce.job.num-opportunistic-maps-percent=40 50 100",)),
    _says("A cluster that stays, and a look at it:"),
    Literal(("yopp up", "yopp node list", "yopp ps", "yopp logs -f last", "yopp down")),
)

SITE_DESCRIPTION: tuple[Block, ...] = (
    _says(
        """The properties of yopp have YARN's names, and those of its own begin with `yopp`. A value is,
        from the lowest layer to the highest: the default below; what the site file says; what a `-D` of the
        command line says."""
    ),
    _says(
        f"""The site file is the first that exists of `~/.config/yopp/yarn-site.toml`, `{SYSTEM_SITE}` and
        the local site that comes with yopp, which switches opportunistic containers on with a queue of 10.
        `YOPP_CONF` names other files in its place, and `--conf`, which may be repeated, replaces both;
        later files go over earlier ones. A directory stands for the files {
            ", ".join(f"`{name}`" for name in FILES_OF_A_DIRECTORY)
        } in it."""
    ),
    _says(
        """An unknown property, a value of the wrong type or out of its bounds, and values that contradict
        each other are refused with the file and the line. `yopp config check` lists everything that is
        wrong, and `yopp config show --origin` says where each value is from."""
    ),
)

SITE_SYNTAX: tuple[Block, ...] = (
    _says("The file is TOML. These four mean the same:"),
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
    _says(
        """In a text, `${name}` stands for another property, `${env.NAME}` for a variable of the environment
        (`${env.NAME:-text}` where it may be missing), `${user.name}` and `${user.home}` for the user, and
        `${yopp.state-dir}` for the state directory, which follows from the run directory; see `yopp`(1)."""
    ),
)

SITE_XML: tuple[Block, ...] = (
    _says(
        """A `yarn-site.xml` or `mapred-site.xml` of Hadoop is read too. Properties in it that mean nothing
        to yopp are ignored with a warning, as are the addresses of that cluster's ResourceManager. One whose name is to
        within a letter or two that of a property here, or is like one in `yarn.resourcemanager.*` or
        `yarn.nodemanager.*`, is told of with what was probably meant by every command that reads the file. A value
        that is `final` there cannot be changed by a later file, only by a `-D`. Of several directories the
        first is used. A DOCTYPE and `xi:include` are refused."""
    ),
)

SITE_EXAMPLES: tuple[Block, ...] = (
    _says(
        "Opportunistic containers, up to 10 of them waiting at a node, and no container of more than 4 GB:"
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
    _says("A property for one command:"),
    Literal(("yopp pi -Dmapreduce.job.num-opportunistic-maps-percent=40 50 100",)),
)

SITE_REFUSED: tuple[Block, ...] = (
    _says(
        """They mean nothing on one host, and one that did nothing would deceive. In Hadoop's own files each is
        ignored with a warning."""
    ),
    *(
        Tagged(name, (f"{refusal.because[:1].upper()}{refusal.because[1:]}.", f"Instead: {refusal.instead}."))
        for name, refusal in REFUSED.items()
    ),
)
SITE_QUEUES = (
    "Queues of guaranteed containers are configured under YARN's names, in which their own names stand: "
    "<queue-path> is `root`, or the names from `root` down with dots (`root.prod.web`). Without any of these there "
    "is one queue, `default`, that has everything. See configs/queues.toml and docs/queues.md."
)
"""What stands before the properties of queues."""
