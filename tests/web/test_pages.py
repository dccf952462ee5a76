"""The pages in a real browser: what they show, that it stays fresh, and that nothing leaves the host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.conftest import wait_until

from .browser import Browser, needs_chromium, opened
from .conftest import WebCluster

pytestmark = [pytest.mark.live, needs_chromium]

YARNS_NODE_TITLES = [
    "Node Labels", "Rack", "Node State", "Node Address", "Node HTTP Address", "Last health-update", "Health-report",
    "Running Containers (G)", "Allocation Tags", "Mem Used (G)", "Mem Avail (G)", "Mem Total", "Phys Mem Used %",
    "VCores Used (G)", "VCores Avail (G)", "VCores Total", "Phys VCores Used %", "Running Containers (O)",
    "Mem Used (O)", "VCores Used (O)", "Queued Containers", "Version",
]  # fmt: skip
YARNS_CONTAINER_ROWS = [
    "ContainerID", "ContainerState", "ExitStatus", "Diagnostics", "User", "TotalMemoryNeeded", "TotalVCoresNeeded",
    "ExecutionType", "logs",
]  # fmt: skip


@pytest.fixture
def browser() -> Iterator[Browser]:
    with opened() as found:
        yield found
        assert {one.rpartition(".")[2] for one in found.hosts()} <= {"localhost"}, "a request left the host"


def detached(web: WebCluster, *arguments: str) -> str:
    return web.yopp("run", "-q", "-d", *arguments).stdout.split()[-1]


def test_the_nodes_page_has_yarns_columns_and_stays_fresh(web: WebCluster, browser: Browser) -> None:
    browser.open(f"{web.rm.url}/cluster/nodes")
    assert browser.texts("th") == YARNS_NODE_TITLES
    (row,) = browser.table()
    (node,) = web.nodes
    assert (row["Node Address"], row["Node State"], row["Queued Containers"]) == (node, "RUNNING", "0")
    assert (row["Mem Total"], row["VCores Total"], row["Node HTTP Address"]) == (
        "1024 MB",
        "2",
        web.nm.address,
    )
    browser.run("window.unchanged = true; document.querySelector('.wide').scrollLeft = 50")
    detached(web, "-n", "6", "-O", "--memory", "64", "sleep", "60")
    # What is queued may come from what the node was given, and so before two are told to run.
    row = browser.until(
        lambda: next(
            (
                one
                for one in browser.table()
                if (one["Queued Containers"], one["Running Containers (O)"]) == ("4", "2")
            ),
            None,
        ),
        "two run, four are queued",
    )
    assert (row["VCores Used (O)"], row["Mem Used (O)"]) == ("2", "128 MB")
    assert browser.run("return window.unchanged") is True, "the page was loaded anew"
    browser.size(1200, 900)
    right = "return [...document.querySelectorAll('th')].map(t => t.getBoundingClientRect().right)"
    assert max(browser.run(right)) <= 1200, "a column is off the screen"
    browser.until(lambda: browser.text("#link") == "live", "live")
    assert browser.complaints() == []


def test_rows_are_sorted_and_searched_and_stay_so(web: WebCluster, browser: Browser) -> None:
    jobs = [detached(web, "--name", name, "--memory", "64", "sleep", "60") for name in ("bee", "ant", "cow")]
    browser.open(f"{web.rm.url}/cluster/apps")

    def names() -> list[str]:
        shown = browser.run(
            "return [...document.querySelectorAll('tbody tr:not([hidden])')].map(r => r.innerText)"
        )
        return [word for row in shown for word in row.split() if word in ("ant", "bee", "cow")]

    def press(title: str) -> None:
        browser.run(
            "[...document.querySelectorAll('th')].find(t => t.innerText.startsWith(arguments[0])).click()",
            title,
        )

    assert names() == ["cow", "ant", "bee"], "the newest first"
    press("Name")
    assert names() == ["ant", "bee", "cow"]
    press("Name")
    assert names() == ["cow", "bee", "ant"]
    assert browser.run("return document.querySelectorAll('th[aria-sort=descending]').length") == 1
    web.yopp("app", "kill", jobs[0])
    browser.until(lambda: "KILLED" in browser.text("table"), "the page is fresh")
    assert names() == ["cow", "bee", "ant"], "a fresh page is sorted as it was"
    press("Name")
    assert names() == ["cow", "ant", "bee"], "the third press gives the page's own order back"
    browser.driver.find_element("id", "search").send_keys("ant RUN")
    assert names() == ["ant"]
    browser.driver.refresh()
    assert names() == ["ant"], "what was searched for is kept while the window is open"
    assert browser.complaints() == []


def test_times_are_shown_in_utc_or_in_the_browsers_zone(shared: WebCluster, browser: Browser) -> None:
    detached(shared, "--memory", "64", "sleep", "60")
    browser.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Tokyo"})
    browser.open(f"{shared.rm.url}/cluster/nodes")
    read = "const one = document.querySelector('time'); return [one.innerText, one.dateTime]"
    shown, full = browser.run(read)
    assert shown == full[11:19] and browser.text("footer").startswith("Times are UTC.")
    browser.run("document.querySelector('footer button').click()")
    shown, full = browser.run(read)
    hours = f"{(int(full[11:13]) + 9) % 24:02d}"
    assert shown.endswith(f"{hours}{full[13:19]}") and "Times are Asia/Tokyo." in browser.text("footer")
    browser.open(f"{shared.rm.url}/cluster/apps")
    assert "Times are Asia/Tokyo." in browser.text("footer"), "the zone holds for all pages"
    browser.run("document.querySelector('footer button').click()")
    shown, full = browser.run(read)
    assert shown in full.replace("T", " ")
    assert browser.complaints() == []


def test_an_application_with_a_hostile_name_is_shown_harmlessly(shared: WebCluster, browser: Browser) -> None:
    name = "<img src=x onerror=\"document.title='owned'\">\u202egnp</title><script>document.title='owned'</script>"
    application = shared.rm("POST", "/ws/v1/cluster/apps/new-application").json["application-id"]
    body = {"application-id": application, "application-name": name,
            "am-container-spec": {"commands": {"command": f"printf '%s' '{name}'; sleep 60 # <b>"}},
            "resource": {"memory": 64, "vCores": 0}, "application-tags": {"tag": ["<i>", "'\">"]}}  # fmt: skip
    assert shared.rm("POST", "/ws/v1/cluster/apps", body).status == 202
    shared.yopp("wait", application, "--for", "RUNNING")
    for page in ("/cluster/apps", f"/cluster/app/{application}", "/cluster/apps/RUNNING", "/cluster"):
        browser.open(shared.rm.url + page)
        browser.until(lambda: browser.text("#link") == "live", "live")
        assert "owned" not in browser.driver.title
        assert (
            browser.run("return document.querySelectorAll('main img, main script, main b, main i').length")
            == 0
        )
    browser.open(f"{shared.rm.url}/cluster/apps")
    assert (
        browser.table()[0]["Name"].startswith("<img src=x onerror=")
        and "\\u202e" in browser.table()[0]["Name"]
    )
    browser.open(f"{shared.rm.url}/cluster/app/{application}")
    (container,) = browser.table()[-1:]
    assert browser.facts()["Application Tags"] == "<i>, '\">" and container
    listed = browser.run(
        "return [...document.querySelectorAll('section:last-of-type td')].map(c => c.dataset.label)"
    )
    row = dict(zip(listed, browser.texts("section:last-of-type td"), strict=True))
    assert (row["Execution Type"], row["State"], row["Logs"], row["Exit"]) == (
        "GUARANTEED",
        "RUNNING",
        "logs",
        "",
    )
    assert browser.complaints() == []


def test_a_container_page_has_yarns_rows_and_follows_a_promotion(
    shared: WebCluster, browser: Browser
) -> None:
    job = detached(shared, "-n", "1", "-O", "--memory", "64", "sleep", "60")
    shared.yopp("wait", job, "--for", "RUNNING")
    find = ("--app", job, "--type", "O", "--state", "RUNNING")
    container = wait_until(lambda: shared.yopp.containers(*find))[0]["id"]
    browser.open(f"{shared.rm.url}/cluster/container/{container}")
    assert browser.driver.current_url == f"{shared.nm.url}/node/container/{container}"
    assert browser.texts(".facts dt")[: len(YARNS_CONTAINER_ROWS)] == YARNS_CONTAINER_ROWS
    facts = browser.facts()
    assert (facts["ContainerID"], facts["ContainerState"], facts["ExitStatus"]) == (
        container,
        "RUNNING",
        "N/A",
    )
    assert (facts["ExecutionType"], facts["TotalMemoryNeeded"]) == ("OPPORTUNISTIC", "64")
    shared.yopp("container", "promote", container)
    browser.until(lambda: browser.facts()["ExecutionType"] == "GUARANTEED", "promoted")
    shared.yopp("container", "kill", container)
    browser.until(lambda: "KILLED_BY_APPMASTER" in browser.facts()["ExitStatus"], "killed")
    for bad, text in (
        ("container_1_0001_01_000001", "Unknown Container. Container might have completed, please go back"),
        ("nonsense", "Invalid containerId nonsense"),
    ):
        browser.open(f"{shared.nm.url}/node/container/{bad}")
        assert text in browser.text()


def test_logs_follow_to_the_end_and_are_harmless(shared: WebCluster, browser: Browser) -> None:
    script = "printf 'caf\\303\\251 \\033[31mred \\342\\200\\256x <b>\\n'"
    script += "; until [ -e go ]; do sleep 0.1; done; echo after"
    job = detached(shared, "--memory", "64", "sh", "-c", f"cd {shared.yopp.home}; {script}")
    shared.yopp("wait", job, "--for", "RUNNING")
    found = ("--app", job, "--state", "RUNNING")
    container = wait_until(lambda: [one for one in shared.yopp.containers(*found) if not one["yopp"]["am"]])[
        0
    ]["id"]
    browser.open(f"{shared.nm.link}/node/containerlogs/{container}/root")
    browser.until(lambda: "caf\u00e9 \\e[31mred \\u202ex <b>" in browser.texts("pre")[1], "the first line")
    assert browser.texts("h2") == ["stderr", "stdout"]
    assert browser.run("return document.querySelectorAll('pre b').length") == 0
    Path(shared.yopp.home, "go").touch()
    browser.until(lambda: browser.texts("pre")[1].endswith("after"), "the last line")
    browser.until(lambda: browser.run("return document.querySelectorAll('pre.ended').length") == 2, "the end")
    assert browser.complaints() == []


def test_a_log_of_one_enormous_line_comes_in_pieces(shared: WebCluster, browser: Browser) -> None:
    job = detached(
        shared, "--memory", "64", "sh", "-c", "head -c 50000000 /dev/zero | tr '\\0' x; echo; printf end"
    )
    shared.yopp("wait", job)
    container = next(one for one in shared.yopp.containers("-a", "--app", job) if not one["yopp"]["am"])["id"]
    browser.open(f"{shared.nm.link}/node/containerlogs/{container}/root")
    browser.until(lambda: browser.texts("pre")[1].endswith("end"), "the end")
    assert browser.run("return document.querySelectorAll('pre')[1].textContent.length") <= 65536
    part = shared.nm.get(f"/node/containerlogs/{container}/root/stdout?start=0")
    assert len(part.body) == int(part.headers["x-log-position"]) == 256 * 1024


def test_every_page_fits_a_phone_in_dark_and_in_light(shared: WebCluster, browser: Browser) -> None:
    job = detached(shared, "-n", "5", "-O", "--memory", "64", "sleep", "60")
    shared.yopp("wait", job, "--for", "RUNNING")
    container = wait_until(lambda: shared.yopp.containers("--app", job, "--state", "RUNNING"))[-1]["id"]
    pages = [
        *(shared.rm.url + path for path in ("/cluster", "/cluster/nodes", "/cluster/apps", "/cluster/scheduler")),
        f"{shared.rm.url}/cluster/app/{job}", f"{shared.rm.url}/cluster/app/application_1_0001",
        *(shared.nm.url + path for path in ("/node", "/node/allContainers", "/node/allApplications")),
        f"{shared.nm.url}/node/application/{job}", f"{shared.nm.url}/node/container/{container}",
        f"{shared.nm.link}/node/containerlogs/{container}/root",
    ]  # fmt: skip
    browser.size(380, 800)
    grounds = set()
    for page in pages:
        for scheme in ("light", "dark"):
            browser.scheme(scheme)
            browser.open(page)
            assert browser.run("return document.documentElement.scrollWidth") <= 380, (page, browser.text())
            assert len(browser.text("h1")) > 2
            grounds.add((scheme, browser.run("return getComputedStyle(document.body).backgroundColor")))
    assert len(grounds) == 2 and len({colour for _, colour in grounds}) == 2
    # The browser itself tells of the page that is not there; nothing else is wrong.
    assert [one for one in browser.complaints() if "404" not in one] == []


def test_a_page_says_when_its_server_has_gone_and_comes_back(web: WebCluster, browser: Browser) -> None:
    browser.open(f"{web.rm.url}/cluster/nodes")
    web.yopp("rm", "stop")
    browser.until(lambda: browser.text("#link").startswith("no answer for"), "lost")
    assert browser.texts("th") == YARNS_NODE_TITLES, "what was known stays"
    address = f"-Dyarn.resourcemanager.webapp.address={web.rm.address}"
    web.yopp("down", "-y")
    web.yopp("up", address, "--vcores", "2", "--memory", "512")
    browser.until(lambda: browser.text("#link") == "live", "live again")
    browser.until(lambda: browser.table() and browser.table()[0]["Mem Total"] == "512 MB", "the new cluster")
