#!/usr/bin/env python3
"""Runs the rules and the dashboard of docs/examples/monitoring with Debian's Prometheus and two daemons.

    interop/monitoring.py [--carrick target/debug/carrick] [-v]

promtool checks the files and runs the tests of the rules. Then two hosts have an association over two paths, and a
Prometheus between them scrapes their daemons. A path is cut: the alerts have to name the host, the peer and the path,
and to end after the repair. Each expression of the rules and of the dashboard is evaluated meanwhile. Network
namespaces, programs and files are removed at the end. Needs root.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse

import yaml

import network

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
EXAMPLES = f"{ROOT}/docs/examples/monitoring"
TROUBLESHOOTING = f"{ROOT}/docs/guide/troubleshooting.md"
PATIENCE = 120  # seconds for anything that is expected to happen
PROMETHEUS = "127.0.0.1:9090"
METRICS_PORT = 9143
SCTP_PORT = 5000

# Expressions of the dashboard without a result while a path of an association is cut, with the reason.
WITHOUT_RESULT = {
    "Ends of associations by reason": "shows only reasons that occur, and no association has ended",
}

# Shorter than the defaults, so that an inactive path is probed each second.
DAEMON = """
[defaults]
rto-min = "200ms"
rto-initial = "200ms"
rto-max = "1s"
hb-interval = "1s"
"""

SERVER = f"""
import socket
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
listener.bind(("0.0.0.0", {SCTP_PORT}))
listener.listen()
print("listening", flush=True)
peer, _ = listener.accept()
while message := peer.recv(65536):
    peer.send(message)
"""

CLIENT = f"""
import select, socket, sys
peer = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
peer.connect((sys.argv[1], {SCTP_PORT}))
print("connected", flush=True)
while not select.select([sys.stdin], [], [], 0.1)[0]:
    peer.send(b"message")
    peer.recv(65536)
"""

# Prints the answer to each address that it reads, as a line of JSON: it runs in the namespace of Prometheus.
FETCH = """
import json, sys, urllib.error, urllib.request
for line in sys.stdin:
    try:
        answer = urllib.request.urlopen(line.strip(), timeout=30).read()
    except urllib.error.HTTPError as error:
        answer = error.read()
    except OSError as error:
        answer = json.dumps({"status": "error", "error": str(error)}).encode()
    try:
        answer = json.loads(answer)
    except ValueError:
        answer = {"status": "error", "error": answer.decode(errors="replace")}
    print(json.dumps(answer), flush=True)
"""


class Failed(Exception):
    """A program did something else than expected; the text describes it."""


class Programs:
    """Programs in network namespaces, each with a log in a directory."""

    def __init__(self, place, verbose):
        self.place, self.verbose, self.running = place, verbose, []

    def start(self, namespace, *command, **options):
        command = ["ip", "netns", "exec", namespace, *command]
        path = f"{self.place}/{len(self.running)}.log"
        if self.verbose:
            print("+", " ".join(command), file=sys.stderr)
        with open(path, "wb") as log:
            process = subprocess.Popen(command, text=True, **({"stdin": subprocess.PIPE, "stdout": log, "stderr": log} | options))
        process.log = path
        self.running.append(process)
        return process

    def wait_for_output(self, process, words):
        wait_for(f"{words!r} from {process.args}", lambda: words in output(process), lambda: ended(process))

    def end(self):
        """Ends the programs, the last one first."""
        for process in reversed(self.running):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe:
                    pipe.close()


def output(process):
    with open(process.log, encoding="utf-8", errors="replace") as log:
        return log.read()


def ended(process):
    if process.poll() is not None:
        raise Failed(f"{process.args} has ended: {output(process)}")
    return output(process)


def wait_for(what, condition, state=lambda: ""):
    """Waits until the condition has a result, and returns it."""
    limit = time.monotonic() + PATIENCE
    while not (found := condition()):
        text = state()
        if time.monotonic() > limit:
            raise Failed(f"{what}: not within {PATIENCE} s: {text}")
        time.sleep(0.1)
    return found


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=EXAMPLES)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: {done.stdout.strip()}")


class Prometheus:
    """HTTP API of a Prometheus in a network namespace."""

    def __init__(self, programs, namespace, config, data):
        command = [f"--config.file={config}", f"--storage.tsdb.path={data}", f"--web.listen-address={PROMETHEUS}"]
        self.process = programs.start(namespace, shutil.which("prometheus"), *command)
        self.fetcher = programs.start(namespace, sys.executable, "-c", FETCH, stdout=subprocess.PIPE)

    def get(self, path, **parameters):
        """Returns the data of an answer."""
        self.fetcher.stdin.write(f"http://{PROMETHEUS}/api/v1/{path}?{urllib.parse.urlencode(parameters)}\n")
        self.fetcher.stdin.flush()
        answer = json.loads(self.fetcher.stdout.readline())
        if answer["status"] != "success":
            raise Failed(f"{path} {parameters}: {answer['error']}")
        return answer["data"]

    def is_ready(self):
        try:
            return bool(self.get("status/buildinfo"))
        except Failed:
            return False

    def query(self, expression):
        return self.get("query", query=expression)["result"]

    def alerts(self, name, **labels):
        """Returns the alerts that fire, of this name and with these labels."""
        labels = {"alertname": name} | labels
        return [one for one in self.get("alerts")["alerts"] if one["state"] == "firing" and labels.items() <= one["labels"].items()]


def read(name):
    with open(f"{EXAMPLES}/{name}", encoding="utf-8") as file:
        return file.read()


def metrics_of(expression):
    """Returns the names of the daemon's metrics in an expression. Those of recording rules have colons."""
    return set(re.findall(r"(?<![\w:])carrick_sctp_\w+(?![\w:])", expression))


def check_files():
    """Checks the files without a daemon."""
    run("promtool", "check", "config", "prometheus.yml")
    run("promtool", "check", "rules", "carrick.rules.yml")
    run("promtool", "test", "rules", "carrick.rules.test.yml")
    rules = [rule for group in yaml.safe_load(read("carrick.rules.yml"))["groups"] for rule in group["rules"]]
    alerts = [rule["alert"] for rule in rules if "alert" in rule]
    tests = read("carrick.rules.test.yml")
    with open(TROUBLESHOOTING, encoding="utf-8") as file:
        manual = set(re.findall(r"^\| `(Carrick\w+)`", file.read(), re.MULTILINE))
    if manual != set(alerts):
        raise Failed(f"{TROUBLESHOOTING}: alerts that differ: {manual ^ set(alerts)}")
    if untested := [name for name in alerts if name not in tests]:
        raise Failed(f"carrick.rules.test.yml has no {untested}")
    return rules


def check_layout(dashboard):
    """Checks what an import needs: distinct identifiers, the variable as the data source, panels that do not overlap."""
    panels, taken = dashboard["panels"], set()
    if len({panel["id"] for panel in panels}) != len(panels):
        raise Failed("panels with the same id")
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    for used in re.findall(r"\$\{?(\w+)", json.dumps([panel.get("targets", []) for panel in panels])):
        if used not in variables and not used.startswith("__"):
            raise Failed(f"no variable {used}")
    for panel in panels:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        if cells & taken or place["x"] + place["w"] > 24:
            raise Failed(f"panel {panel['title']} has no place")
        taken |= cells
        for part in [panel, *panel.get("targets", [])] if panel["type"] != "row" else []:
            if part["datasource"] != {"type": "prometheus", "uid": "${datasource}"}:
                raise Failed(f"panel {panel['title']} has another data source")


def expressions(dashboard):
    """Yields (title, expression) of the panels and annotations, with values for the variables."""
    listed = [(panel["title"], target["expr"]) for panel in dashboard["panels"] for target in panel.get("targets", [])]
    listed += [(one["name"], one["expr"]) for one in dashboard["annotations"]["list"] if "expr" in one]
    for title, expression in listed:
        for name, value in {"$__rate_interval": "10s", "$__range": "1m", "$job": ".*", "$instance": ".*", "$association": ".*"}.items():
            expression = expression.replace(name, value)
        if "$" in expression:
            raise Failed(f"{title}: unknown variable: {expression}")
        yield title, expression


def check_dashboard(prometheus, dashboard):
    """Evaluates each expression and each variable of the dashboard. Returns the number of expressions."""
    present, without, count = set(prometheus.get("label/__name__/values")), set(), 0
    for title, expression in expressions(dashboard):
        if missing := metrics_of(expression) - present:
            raise Failed(f"{title}: no such metric: {missing}")
        if not prometheus.query(expression):
            without.add(title)
        count += 1
    if without != set(WITHOUT_RESULT):
        raise Failed(f"panels whose expressions have no result: {without}, but expected: {set(WITHOUT_RESULT)}")
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            selector, label = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"]).groups()
            selector = re.sub(r"\$\w+", ".*", selector)
            if not prometheus.get(f"label/{label}/values", **{"match[]": selector}):
                raise Failed(f"variable {variable['name']} has no value")
    return count


def check_rules(prometheus, rules):
    """Checks that each rule is evaluated, and that the metrics in it exist."""
    present = set(prometheus.get("label/__name__/values"))
    for rule in rules:
        if missing := metrics_of(rule["expr"]) - present:
            raise Failed(f"{rule.get('alert') or rule['record']}: no such metric: {missing}")
    states = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    if len(states) != len(rules) or (bad := [rule for rule in states if rule["health"] != "ok"]):
        raise Failed(f"rules that are not evaluated: {bad}")


def configuration(place):
    """Writes the example configuration with the targets and the times of this test, and returns its path."""
    config = yaml.safe_load(read("prometheus.yml"))
    config["global"] = {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"}
    config["rule_files"] = [f"{EXAMPLES}/{name}" for name in config["rule_files"]]
    (job,) = config["scrape_configs"]
    job["static_configs"] = [{"targets": [f"{network.address(side, 0)}:{METRICS_PORT}" for side in "ab"]}]
    with open(f"{place}/prometheus.yml", "w", encoding="utf-8") as file:
        yaml.safe_dump(config, file)
    return f"{place}/prometheus.yml"


def start_hosts(programs, hosts, carrick):
    """Starts a daemon on each side, and an association of side a with side b."""
    with open(f"{programs.place}/daemon.toml", "w", encoding="utf-8") as file:
        file.write(DAEMON)
    sockets = {}
    # Only side a has metrics of single associations.
    for side, listed in (("b", 0), ("a", 5)):
        sockets[side] = f"{programs.place}/{side}"
        binds = [word for path in range(network.PATHS) for word in ("--bind", network.address(side, path))]
        metrics = f"{network.address(side, 0)}:{METRICS_PORT}"
        options = ["--socket", sockets[side], "--config", f"{programs.place}/daemon.toml", "--metrics", metrics]
        daemon = programs.start(hosts.namespace[side], carrick, "daemon", *options, "--metrics-associations", str(listed), *binds)
        programs.wait_for_output(daemon, "serving")
    for side, words, program in (("b", "listening", SERVER), ("a", "connected", CLIENT)):
        command = [carrick, "run", "--daemon", sockets[side], "--", sys.executable, "-c", program, network.address("b", 0)]
        programs.wait_for_output(programs.start(hosts.namespace[side], *command), words)


def check_alert(alert, association):
    """Checks the labels and the texts of the alert about the path that was cut."""
    expected = {
        "alertname": "CarrickPathDoubtful",
        "severity": "warning",
        "job": "carrick",
        "instance": f"{network.address('a', 0)}:{METRICS_PORT}",
        "association": association["association"],
        "local_port": association["local_port"],
        "peer": f"{network.address('b', 0)}:{SCTP_PORT}",
        "destination": network.address("b", 0),
    }
    if alert["labels"] != expected:
        raise Failed(f"labels of the alert: {alert['labels']}, but expected: {expected}")
    description = alert["annotations"]["description"]
    for label in ("instance", "association", "local_port", "peer", "destination"):
        if expected[label] not in description:
            raise Failed(f"the description lacks {label}: {description}")


def fail_a_path(hosts, prometheus, rules, dashboard):
    """Cuts the first path and repairs it."""
    name = "CarrickPathDoubtful"
    active = 'carrick_sctp_path_info{state="active"}'
    wait_for("two active paths", lambda: len(prometheus.query(active)) == 2, lambda: prometheus.query("carrick_sctp_path_info"))
    wait_for("both daemons", lambda: len(prometheus.query('up{job="carrick"} == 1')) == 2)
    (association,) = prometheus.query("carrick_sctp_association_info")
    # The rules may have been evaluated before the first scrape.
    wait_for("no alerts", lambda: not prometheus.get("alerts")["alerts"], lambda: prometheus.get("alerts"))
    hosts.cut(0)
    alert = wait_for(name, lambda: prometheus.alerts(name), lambda: prometheus.get("alerts"))
    if len(alert) != 1:
        raise Failed(f"more than one path: {alert}")
    check_alert(alert[0], association["metric"])
    print(f"cut: {alert[0]['annotations']['summary']}", flush=True)
    other = f"{network.address('b', 0)}:{METRICS_PORT}"
    unlisted = "CarrickUnlistedPathsDoubtful"
    wait_for(unlisted, lambda: prometheus.alerts(unlisted, instance=other), lambda: prometheus.get("alerts"))
    check_rules(prometheus, rules)
    print(f"dashboard: {check_dashboard(prometheus, dashboard)} expressions, each with existing metrics", flush=True)
    hosts.restore(0)
    wait_for("the end of the alerts", lambda: not prometheus.alerts(name) and not prometheus.alerts(unlisted), lambda: prometheus.get("alerts"))
    if not prometheus.query('carrick_sctp_path_events_total{event="recovered"} > 0'):
        raise Failed("no path has recovered")
    print("repaired: the alerts have ended", flush=True)


def main():
    top = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    top.add_argument("--carrick", default=f"{ROOT}/target/debug/carrick", help="the command, with libcarrick_preload.so beside it")
    top.add_argument("-v", "--verbose", action="store_true", help="print the commands")
    options = top.parse_args()
    missing = [name for name in ("prometheus", "promtool", "nft", "ethtool") if shutil.which(name) is None]
    if missing:
        sys.exit(f"monitoring: no {', '.join(missing)}: run interop/install.sh --monitoring")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(1))
    dashboard = json.loads(read("carrick.dashboard.json"))
    with tempfile.TemporaryDirectory(prefix="carrick-monitoring-") as place:
        programs = Programs(place, options.verbose)
        try:
            rules = check_files()
            check_layout(dashboard)
            print(f"files: {len(rules)} rules and their tests", flush=True)
            with network.Network() as hosts:
                try:
                    hosts.join_middle(0)
                    start_hosts(programs, hosts, os.path.abspath(options.carrick))
                    prometheus = Prometheus(programs, hosts.namespace["m"], configuration(place), f"{place}/data")
                    wait_for("Prometheus", prometheus.is_ready, lambda: ended(prometheus.process))
                    fail_a_path(hosts, prometheus, rules, dashboard)
                finally:
                    programs.end()
        except (Failed, network.NetworkError) as error:
            sys.exit(f"monitoring: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
