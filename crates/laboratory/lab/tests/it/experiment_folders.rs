//! Experiments in folders: the example of the documentation, and errors in each file.

use std::fs;
use std::path::{Path, PathBuf};

use carrick_lab::file::{Experiment, ScenarioFile};
use carrick_lab::live::{Connection, RunOutcome, Stack};
use carrick_lab::{RunOptions, ScenarioResult, Silent, TraceOptions, Verdict};
use carrick_netsim::mobile::MobileNode;
use carrick_netsim::{Change, ExternalHost};
use carrick_proto::Time;

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    /// Writes the example of the documentation, with these texts replaced in its files.
    fn new(name: &str, replaced: &[(&str, &str)]) -> Self {
        let name = format!("carrick-folder-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("created");
        for (file, text) in example() {
            let text = replaced
                .iter()
                .fold(text, |text, (from, to)| text.replace(from, to));
            fs::write(folder.join(file), text).expect("written");
        }
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the files of the example: a line with the name, and a block.
fn example() -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/experiment-folders.md");
    let page = fs::read_to_string(path).expect("the page exists");
    let mut files = Vec::new();
    for (at, _) in page.match_indices("`:\n\n```") {
        let name = page[..at].rsplit('`').next().expect("a name").to_owned();
        let block = page[at + 7..].split_once('\n').expect("a block").1;
        let text = block.split_once("```").expect("its end").0.to_owned();
        files.push((name, text));
    }
    assert_eq!(files.len(), 4);
    files
}

fn options(reps: Option<u64>) -> RunOptions {
    RunOptions {
        reps,
        ..RunOptions::default()
    }
}

fn run(folder: &Folder, options: &RunOptions) -> ScenarioResult {
    let experiment = Experiment::load(&folder.0).expect("valid");
    experiment.run(options, &Silent).expect("it runs")
}

fn value(result: &ScenarioResult, id: &str) -> f64 {
    let row = result.rows.iter().find(|row| row.id == id);
    row.and_then(|row| row.measured).expect(id)
}

#[test]
fn the_documented_example_gives_rows_figures_and_text() {
    let folder = Folder::new("example", &[]);
    let result = run(&folder, &options(None));
    let ids: Vec<&str> = result.rows.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(
        ids,
        ["none.goodput", "one.goodput", "three.goodput", "three.lost"]
    );
    let [none, three] = ["none.goodput", "three.goodput"].map(|id| value(&result, id));
    let lost = value(&result, "three.lost");
    assert!((lost - 100.0 * (1.0 - three / none)).abs() < 1e-9, "{lost}");
    let row = &result.rows[3];
    assert!(
        row.ci95.is_some_and(|half| half > 0.0),
        "the rows are paired: {row:?}"
    );
    assert_eq!((row.unit.as_str(), row.published), ("%", Some(52.9)));
    assert_eq!(result.rows[0].verdict(), Some(Verdict::WithinTolerance));
    assert_eq!(result.rows[2].bound_text().as_deref(), Some("≤ 2000"));
    assert!(
        result.rows[2].note.ends_with("timeouts in 4 runs."),
        "{}",
        result.rows[2].note
    );
    assert!(result.rows[0].note.is_empty(), "no timeouts without loss");
    let series = &result.figures[0].series;
    assert_eq!(series[0].points.len(), 3);
    assert_eq!(series[1].points[2].y.to_bits(), 900.0_f64.to_bits());
    let note = &result.notes[0];
    assert!(
        note.ends_with(&format!("it loses {lost:.0} %, published 53 %.")),
        "{note}"
    );
    assert_eq!(
        result.question,
        "What does a bulk transfer lose with the loss rate?"
    );
    assert_eq!(result.full_repetitions, Some(40));
    let command = result.settings.iter().find(|own| own.name == "command");
    let command = &command.expect("a command").value;
    let path = folder.0.display();
    assert_eq!(
        *command,
        format!("carrick reproduce {path} --seed 1 --reps 4")
    );
}

/// The interval of a ratio of means is that of the pairs: both rows vary together.
#[test]
fn a_row_computed_from_itself_has_no_interval() {
    let folder = Folder::new("paired", &[("[none.goodput])\"", "[three.goodput])\"")]);
    let result = run(&folder, &options(Some(3)));
    let row = &result.rows[3];
    assert_eq!(row.measured, Some(0.0));
    assert!(row.ci95.is_some_and(|half| half < 1e-9), "{row:?}");
}

#[test]
fn cells_have_names_for_captures_and_traces() {
    let folder = Folder::new("cells", &[]);
    let names = [folder.0.display().to_string()];
    let all = Experiment::select(&names, false).expect("it exists");
    let experiment = &all[0];
    assert_eq!(experiment.scenario().cell_names(), ["none", "one", "three"]);
    let traced = experiment.trace("three", &options(None), &TraceOptions::default());
    let traced = traced.expect("it runs");
    assert!(traced.figures.iter().any(|figure| figure.id == "sequence"));
    let into = folder.0.join("captures");
    let captured = experiment.capture(&["one".into()], &options(None), &into, &Silent);
    captured.expect("captured");
    assert_eq!(
        fs::read_dir(into.join("one")).expect("a directory").count(),
        2
    );
    let missing = Experiment::check_cells(&all, &["four".into()]).expect_err("no such cell");
    assert!(
        missing.to_string().contains("none, one, three"),
        "{missing}"
    );
}

#[test]
fn a_file_has_a_network_for_other_programs() {
    let folder = Folder::new("network", &[]);
    let file = ScenarioFile::load(&folder.0.join("scenario.toml")).expect("valid");
    let world = file.world(Some("one"), 1).expect("the cell exists")().expect("a network");
    assert_eq!((world.hosts.len(), world.changes.len()), (2, 0));
    let names = world
        .hosts
        .iter()
        .map(|host| world.network.node_name(*host));
    assert_eq!(names.collect::<Vec<_>>(), ["a", "b"]);
    let missing = file.world(Some("two"), 1).err().expect("no such cell");
    assert!(
        missing.to_string().ends_with("there are none, one, three"),
        "{missing}"
    );
}

#[test]
fn live_runs_need_a_flow_with_an_end() {
    let folder = Folder::new("live", &[]);
    let experiment = Experiment::load(&folder.0).expect("valid");
    let why = experiment.live(&options(None)).err().expect("none");
    assert!(why.contains("live.cells"), "{why}");
    let live = (
        "measure = [\"goodput",
        "live = { cells = [\"*\"], messages = 50, duration = \"9 s\", tcp = [\"reno\", \"bbr\"] }\nmeasure = [\"goodput",
    );
    let constant = "kind = \"constant\"\ninterval = \"10 ms\"";
    let ended = format!("{constant}\nmessages = 200");
    let plan = |name: &str, kind: &str, stack: &str| {
        let [a, b] = ["[hosts.a]", "[hosts.b]"].map(|host| (host, format!("{host}{stack}")));
        let replaced = [live, ("kind = \"bulk\"", kind), (a.0, &a.1), (b.0, &b.1)];
        let folder = Folder::new(name, &replaced);
        let experiment = Experiment::load(&folder.0).expect("valid");
        experiment.live(&options(Some(1)))
    };
    let poisson = constant.replace("constant", "poisson");
    for (name, kind, expected) in [
        ("poisson", poisson.as_str(), "constant rate"),
        ("endless", constant, "give it messages or stop"),
    ] {
        let why = plan(name, kind, "").err().expect("none");
        assert!(why.contains(expected), "{why}");
    }
    // Flows without an end are measured for 9 s, those with one have 50 messages.
    let bulk = plan("bulk", "kind = \"bulk\"", "").expect("live runs");
    assert_eq!(bulk.runs.len(), 3 * 2);
    assert_eq!(bulk.runs[0].expected.as_secs(), 9 + 1 + 4);
    // In UDP, messages of a transfer are shorter by its header.
    let transfer = plan("transfer", "kind = \"bulk\"\nmessages = 200", "").expect("live runs");
    for (run, size) in transfer.runs.into_iter().zip([992, 1000]) {
        let connection = run.flows.into_iter().next().expect("a flow");
        assert!(!connection.may_be_lost && connection.roams.is_none());
        let [mut source, _] = connection.programs;
        source.connected(Time::ZERO, 1);
        source.handle_timeout(Time::ZERO);
        let sent = std::iter::from_fn(|| source.poll_transmit(Time::ZERO));
        let sizes: Vec<usize> = sent.map(|out| out.payload.len()).collect();
        assert_eq!(sizes, [size; 50], "{}", run.name);
    }
    let short = plan("ended", &ended, "").expect("live runs");
    assert_eq!(short.runs[0].expected.as_millis(), 49 * 10 + 4000);
    let tcp = plan("tcp", &ended, "\nstack = \"tcp\"").expect("live runs");
    let names: Vec<&str> = tcp.runs.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(names[..3], ["none.reno.0", "none.bbr.0", "one.reno.0"]);
    let Stack::Tcp {
        segment, window, ..
    } = tcp.runs[1].flows[0].stack
    else {
        panic!("TCP of the kernel");
    };
    // 1460 bytes of data and the time stamps.
    assert_eq!((segment, window), (Some(1472), Some(65_536)));
}

/// Rows, series and parts that the example does not have.
#[test]
fn rows_and_figures_of_single_messages() {
    let folder = Folder::new(
        "messages",
        &[
            (
                "\"timeouts\"]",
                "\"timeouts\", \"delay.mean\", \"delay.retransmitted\"]",
            ),
            (
                "[[table]]\n[[table.row]]\nid = \"three.lost\"",
                "[[table]]\n[[table.row]]\nid = \"three.delay\"\nlabel = \"delay\"\ncell = \"three\"\nmeasure = \"delay.retransmitted\"\nlisted = false\n\
                 [[table.row]]\nid = \"three.less\"\nlabel = \"less\"\nvalue = \"[none.goodput] - [three.goodput]\"\npaired = true\nnot_compared = \"no value\"\n\
                 [[table.row]]\nid = \"three.lost\"",
            ),
            (
                "95 % confidence interval, and",
                "95 % confidence interval, {[three.delay]:.0} ms, and",
            ),
            (
                "[[figure.series]]\nlabel = \"measured\"",
                "references = [{ y = \"[three.goodput]\", label = \"with loss {[three.goodput]:.0}\" }]\n\
                 [[figure.series]]\nlabel = \"messages\"\nkind = \"trace\"\nmessages = { cell = \"three\", count = 40, from = 100 }\n\
                 [[figure.series]]\nlabel = \"longest\"\nmessages = { cell = \"three\", longest_of = 50, retransmitted = true }\n\
                 [[figure.series]]\nlabel = \"deliveries\"\nkind = \"step\"\ndeliveries = { cell = \"one\", from = 1, to = 30, unit = 100 }\n\
                 [[figure.series]]\nlabel = \"distribution\"\ndistribution = \"three.delay\"\nover = \"messages\"\n\
                 [[figure.series]]\nlabel = \"measured\"",
            ),
            (
                "\"published[three.goodput]\"]",
                "\"published[three.goodput]\"]\n[[split]]\ntitle = \"rate\"\nunit = \"kbit/s\"\nparts = [\"kept\", \"lost\"]\n\
                 [[split.line]]\nlabel = \"3 %\"\nvalues = [\"[three.goodput]\", \"[three.less]\"]",
            ),
        ],
    );
    let result = run(&folder, &options(Some(3)));
    let ids: Vec<&str> = result.rows.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(ids[3..], ["three.less", "three.lost"], "one is hidden");
    let [none, three, less] = [0, 2, 3].map(|n| &result.rows[n]);
    for repetition in 0..3 {
        let difference = none.values[repetition] - three.values[repetition];
        assert!((less.values[repetition] - difference).abs() < 1e-9);
    }
    assert_eq!(less.not_compared, None, "nothing is published");
    let figure = &result.figures[0];
    assert!(!figure.caption.contains('{'), "{}", figure.caption);
    let reference = &figure.references[0];
    assert_eq!(Some(reference.y), three.measured);
    assert_eq!(reference.label, format!("with loss {:.0}", reference.y));
    let points = |n: usize| &figure.series[n].points;
    assert_eq!(points(0).len(), 40);
    assert!(points(0).windows(2).all(|pair| pair[1].x - pair[0].x < 1.5));
    assert!(points(1).len() > 3, "groups with a retransmitted message");
    let delivered = points(2);
    assert!((200..700).contains(&delivered.len()), "{}", delivered.len());
    assert!(delivered.is_sorted_by(|a, b| a.x <= b.x && a.y <= b.y));
    let last = delivered.last().expect("a point");
    assert!((last.x - 30.0).abs() < 1e-9, "held until the end");
    assert!((10.0..60.0).contains(&last.y), "hundreds: {}", last.y);
    assert!(points(3).len() > points(1).len(), "of all repetitions");
    let split = &result.splits[0];
    assert!((split.lines[0].total() - none.measured.expect("a mean")).abs() < 1e-6);
}

/// The last table of `each` changes fastest; rows that are not listed serve formulas, figures and live runs.
#[test]
fn rows_are_products_of_tables_and_may_be_unlisted() {
    let folder = Folder::new(
        "product",
        &[
            (
                "each = { cell = [\"none\", \"one\", \"three\"], name = [\"no loss\", \"1 % loss\", \"3 % loss\"], kbit = [1910, 1600, 900] }\n",
                "each = [{ cell = [\"none\", \"one\", \"three\"], kbit = [1910, 1600, 900] }, { name = [\"goodput\", \"timeouts\"] }]\n",
            ),
            (
                "id = \"{cell}.goodput\"",
                "id = \"{cell}.{name}\"\nlisted = false\nlive = \"for a reason\"",
            ),
            (
                "measure = \"goodput\"\npublished",
                "measure = \"{name}\"\npublished",
            ),
            (
                "y = [\"[none.goodput]\", \"[one.goodput]\", \"[three.goodput]\"]",
                "y = \"[none.goodput] - {x} * 100\"",
            ),
            (
                "x = [0, 1, 3]\ny = \"",
                "x = { from = 0, to = 3, count = 4 }\ny = \"",
            ),
            (
                "40 packets\n\n## Notes",
                "40 packets\n- runs: {repetitions:.0} of {seconds:.0} s\n\n## Notes",
            ),
            (
                "duration = \"20 s\"",
                "duration = { short = \"20 s\", full = \"30 s\" }",
            ),
        ],
    );
    let short = run(&folder, &options(Some(1)));
    let ids: Vec<&str> = short.rows.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(ids, ["three.lost"]);
    assert!(short.rows[0].measured.is_some());
    let drawn = &short.figures[0].series[0].points;
    let steps: Vec<f64> = drawn.iter().map(|point| point.y - drawn[0].y).collect();
    assert_eq!(steps.len(), 4);
    assert!((steps[3] + 300.0).abs() < 1e-9, "{steps:?}");
    let runs = |result: &ScenarioResult| {
        let setting = result.settings.iter().find(|own| own.name == "runs");
        setting.expect("a setting").value.clone()
    };
    assert_eq!(runs(&short), "1 of 18 s");
    let full = RunOptions {
        full: true,
        ..options(Some(1))
    };
    assert_eq!(runs(&run(&folder, &full)), "1 of 28 s");
}

/// Text of the example, its replacement, place and part of the error.
const ERRORS: [(&str, &str, &str, &str); 29] = [
    (
        "measure = \"goodput\"",
        "measure = \"godput\"",
        "published.toml, line 12",
        "data.goodput, data.timeouts",
    ),
    (
        "cell = \"{cell}\"",
        "cell = \"{cell}x\"",
        "published.toml, line 11",
        "there are none, one, three",
    ),
    (
        "published = \"kbit\"",
        "published = \"kbits\"",
        "published.toml, line 13",
        "over the columns",
    ),
    (
        "kbit = [1910, 1600, 900]",
        "kbit = [1910, 1600]",
        "published.toml, line 7",
        "expected as many",
    ),
    (
        "total.timeouts > 0",
        "totals > 0",
        "published.toml, line 16",
        "total.MEASURE",
    ),
    (
        "value = \"100 * (1 -",
        "value = \"100 * (1 -)",
        "published.toml, line 24",
        "expected a number",
    ),
    (
        "[three.goodput] /",
        "[four.goodput] /",
        "published.toml",
        "[four.goodput] is not known here; expected rows above it",
    ),
    (
        "id = \"{cell}.goodput\"",
        "id = \"goodput\"",
        "published.toml, line 8",
        "two rows have the id",
    ),
    (
        "y = [\"[none.goodput]\", ",
        "y = [",
        "figures.toml, line 10",
        "x has 3 values and y has 2",
    ),
    (
        "label = \"loss\", unit = \"%\"",
        "names = [\"none\", \"one\", \"three\"]",
        "figures.toml, line 9",
        "0 has no name on the horizontal axis; expected 1 to 3",
    ),
    (
        "caption = \"Mean",
        "text = \"Mean",
        "figures.toml",
        "caption: missing",
    ),
    (
        "{[three.lost]:.0}",
        "{[three.lst]:.0}",
        "report.md, line 13",
        "[three.lst] is not known",
    ),
    (
        "## Settings",
        "## Setting",
        "report.md, line 7",
        "Question, Settings, Notes",
    ),
    (
        "- link: 2",
        "- link 2",
        "report.md, line 9",
        "- queue: 6 packets",
    ),
    (
        "names = [\"none\", \"one\",",
        "names = [\"one\", \"one\",",
        "scenario.toml, line 22",
        "different names",
    ),
    (
        "names = [\"none\",",
        "names = [\"n/a\",",
        "scenario.toml, line 23",
        "letters, digits, hyphens",
    ),
    ("short = 4, ", "", "scenario.toml, line 4", "short: missing"),
    (
        "published = \"kbit\"",
        "paired = true",
        "published.toml, line 13",
        "belongs to a row with a value",
    ),
    (
        "x = [0, 1, 3]\ny = [\"[none.goodput]\", \"[one.goodput]\", \"[three.goodput]\"]",
        "distribution = \"none.goodput\"\nover = \"messages\"",
        "figures.toml, line 9",
        "is no mean over messages",
    ),
    (
        "x = [0, 1, 3]\ny = [\"[none.goodput]\", \"[one.goodput]\", \"[three.goodput]\"]",
        "messages = { cell = \"none\" }",
        "figures.toml, line 9",
        "records no transmissions",
    ),
    (
        "x = [0, 1, 3]\ny = [\"[none.goodput]\", \"[one.goodput]\", \"[three.goodput]\"]",
        "over = \"messages\"",
        "figures.toml, line 9",
        "belongs to distribution",
    ),
    (
        "95 % confidence interval, and",
        "{[four.goodput]} and",
        "figures.toml, line 4",
        "[four.goodput] is not known",
    ),
    (
        "[[figure]]",
        "[[split]]\ntitle = \"a\"\nunit = \"b\"\nparts = [\"c\"]\n[[split.line]]\nlabel = \"d\"\nvalues = []\n[[figure]]",
        "figures.toml, line 7",
        "one for each of the 1 parts",
    ),
    (
        "title = \"Loss and the goodput",
        "live = { tcp = [\"vegas\"] }\ntitle = \"Loss and the goodput",
        "scenario.toml, line 1",
        "live.tcp",
    ),
    (
        "published = \"kbit\"",
        "live = 3\npublished = \"kbit\"",
        "published.toml, line 13",
        "why live runs may differ",
    ),
    (
        "x = [0, 1, 3]\ny = [\"[n",
        "x = { from = 0, to = 1 }\ny = [\"[n",
        "figures.toml, line 9",
        "count: missing",
    ),
    (
        "queue of 40 packets",
        "queue of {packets} packets",
        "report.md",
        "repetitions and seconds",
    ),
    (
        "kind = \"points\"\nx = [0, 1, 3]",
        "deliveries = { cell = \"one\", from = 5, to = 5 }\nx = [0, 1, 3]",
        "figures.toml, line ",
        "one of y, pairs, distribution, messages and deliveries",
    ),
    (
        "duration = \"20 s\"",
        "only = [\"two\"]\nduration = \"20 s\"",
        "scenario.toml, line 2",
        "no cell has this name",
    ),
];

/// Each error names its file and line, and what was expected.
#[test]
fn errors_name_file_line_and_expectation() {
    let mut wrong = Vec::new();
    for (number, (from, to, place, expected)) in ERRORS.into_iter().enumerate() {
        let folder = Folder::new(&format!("error-{number}"), &[(from, to)]);
        let error = Experiment::load(&folder.0).expect_err(to).to_string();
        if !error.contains(place) || !error.contains(expected) {
            wrong.push(format!("{to}: {error}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let folder = Folder::new("missing", &[]);
    fs::remove_file(folder.0.join("published.toml")).expect("removed");
    let error = Experiment::load(&folder.0).expect_err("a file is missing");
    assert!(error.to_string().contains("published.toml"), "{error}");
}

/// The published experiments that are folders can be read.
fn published(name: &str) -> Experiment {
    Experiment::published(name).expect("it is published")
}

#[test]
fn built_in_experiments_are_valid() {
    let failover = published("failover");
    assert_eq!(
        (failover.name(), failover.scenario().cells().len()),
        ("failover", 4 * 7 * 2 + 2 * 8 + 3)
    );
    let plan = failover.live(&options(Some(2))).expect("live runs");
    assert_eq!(plan.runs.len(), 2 * 10);
    assert_eq!(plan.runs[0].name, "pmr2.failover.udp.0");
    assert_eq!(plan.runs[19].name, "best.failover.raw.1");
    for run in plan.runs {
        let world = (run.world)().expect("the network is valid");
        assert_eq!((world.hosts.len(), world.changes.len()), (2, 2));
        let after = world.changes.iter().map(|(after, _)| after.as_millis());
        assert!(
            after.clone().all(|ms| (8000..8040).contains(&ms)),
            "counted from the first message"
        );
    }
    let firewall = published("firewall");
    assert_eq!(
        (firewall.name(), firewall.scenario().cells().len()),
        ("firewall", 86)
    );
    let plan = firewall.live(&options(Some(2))).expect("live runs");
    let names: Vec<&str> = plan.runs.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(names.len(), 2 * 20);
    assert_eq!(names[2], "sctp.p1.n1.udp.0");
    for name in ["tcp.p5.n1.bbr.1", "best.p5.n1.raw.0"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
}

/// A folder in a folder: the sweep over what a paper leaves open.
#[test]
fn the_inverse_reproduction_is_a_folder() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let folder = root.join("experiments/mobile-ip-inverse");
    let inverse = Experiment::load(&folder).expect("valid");
    // Window and RTO.Min, round trip, and the losses of configuration 1 and of three ways of configuration 2.
    assert_eq!(inverse.scenario().cells().len(), 6 * 5 * (4 + 3 * 2));
    assert_eq!(inverse.name(), "mobile-ip-inverse");
}

/// Congestion controls on a link with random losses, also beside the kernel's.
#[test]
fn the_lossy_link_is_a_folder() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let folder = root.join("experiments/lossy-link");
    let experiment = Experiment::load(&folder).expect("valid");
    assert_eq!(experiment.scenario().cells().len(), 3 * 3);
    let plan = experiment.live(&options(Some(1))).expect("live runs");
    // SCTP in UDP and on plain IP, and two congestion controls of the kernel.
    assert_eq!(plan.runs.len(), 6 * 2 + 3 * 2);
}

/// Home agent, foreign agents and the Mobile IP of the node are simulated in live runs.
#[test]
fn live_mobile_nodes_keep_their_agents() {
    let experiment = published("mobile-ip");
    let plan = experiment.live(&options(Some(2))).expect("live runs");
    let count = plan.runs.len() / 2;
    assert_eq!(count, 6 + 4 + 9 + 6 + 16);
    assert_eq!(plan.runs[0].name, "config1.0.udp.0");
    assert_eq!(plan.runs[count].name, "config1.0.udp.1");
    for run in plan.runs {
        let mut world = (run.world)().expect("the network is valid");
        let [correspondent, mobile] = world.hosts[..] else {
            panic!("two hosts");
        };
        let connection = &run.flows[0];
        let of_addresses = |(_, change): &(_, Change)| {
            let is = matches!(
                change,
                Change::AddAddress { .. } | Change::RemoveAddress { .. }
            );
            usize::from(is)
        };
        let moved: usize = world.changes.iter().map(of_addresses).sum();
        let without_agents = run.name.contains("asconf") || run.name.contains("make-before-break");
        assert_eq!(
            connection.roams,
            without_agents.then_some(1),
            "{}",
            run.name
        );
        assert_eq!(moved, if without_agents { 2 } else { 0 });
        assert_eq!(connection.may_be_lost, !world.changes.is_empty());
        let runs_mobile_ip = world.network.runs::<MobileNode<ExternalHost>>(mobile);
        assert_eq!(runs_mobile_ip, !without_agents, "{}", run.name);
        if runs_mobile_ip {
            // The mobile node registers independently of a transport.
            world.network.run_until(carrick_netsim::Time::from_secs(2));
            let node: &MobileNode<ExternalHost> = world.network.node(mobile);
            assert!(node.registered().is_some(), "{}", run.name);
        }
        let ends = connection.addresses.as_ref().expect("selected addresses");
        for (host, addresses) in [correspondent, mobile].into_iter().zip(ends) {
            let owner = |address| world.network.owner(address);
            let owned = |address| owner(address).map(|owner| world.network.node_of(owner));
            assert!(
                addresses
                    .iter()
                    .all(|address| owned(*address) == Some(host))
            );
        }
    }
}

/// A run that failed has a note, and its rows stay empty.
#[test]
fn failed_live_runs_leave_rows_empty() {
    let satellite = published("satellite");
    assert_eq!(satellite.scenario().cells().len(), 16);
    let plan = satellite.live(&options(Some(1))).expect("live runs");
    let names: Vec<&str> = plan.runs.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(names.len(), 9 + 5);
    assert_eq!([names[0], names[1]], ["standard.udp.0", "standard.raw.0"]);
    assert_eq!([names[8], names[13]], ["tcp.bbr.0", "tcp.lossy.bbr.0"]);
    let outcomes = plan.runs.iter().map(|run| match run.flows[0].stack {
        Stack::Tcp { congestion, .. } => RunOutcome::Missing(format!("no {congestion}")),
        _ => RunOutcome::Failed("it broke".into()),
    });
    let outcomes = outcomes.collect();
    let result = (plan.conclude)(outcomes).expect("the simulations succeed");
    let mut ids: Vec<&str> = result.rows.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(ids.len(), 9 * 3 + 2 + 5);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), result.rows.len());
    assert!(ids.contains(&"gain.recovery.raw"), "{ids:?}");
    let mut rows = result.rows.iter();
    assert!(rows.all(|row| row.live.is_none() && row.n == 0));
    assert_eq!(result.notes.len(), 8 + 3 + 1, "{:?}", result.notes);
}

/// Every means has a row or the reason why it has no value.
#[test]
fn lacking_means_are_named_in_their_rows() {
    let all = Experiment::with_means(Experiment::select(&[], false).expect("they are valid"));
    let means: Vec<&Experiment> = all.iter().filter(|own| own.is_live_only()).collect();
    assert_eq!(means.len(), 5);
    for experiment in means {
        let options = options(Some(1));
        let plan = experiment.live(&options).expect("live runs");
        assert_eq!(plan.runs.len(), experiment.scenario().cells().len());
        let is_own = |flow: &Connection| matches!(flow.stack, Stack::Sctp { .. });
        let outcomes = plan.runs.iter().map(|run| {
            if run.flows.iter().all(is_own) {
                RunOutcome::Failed("it broke".into())
            } else {
                RunOutcome::Missing("no such stack".into())
            }
        });
        let live = (plan.conclude)(outcomes.collect()).expect("there is nothing to simulate");
        let result = experiment.live_result(&options, live);
        assert!(
            result.rows.len() >= plan.runs.len(),
            "{}",
            experiment.name()
        );
        for row in &result.rows {
            let reasons = ["Not run: it broke.", "Not run: no such stack."];
            let has_reason = reasons.iter().any(|reason| row.note.contains(reason));
            assert!(row.n == 0 && has_reason, "{row:?}");
        }
        let notes = &result.live.expect("the live runs").notes;
        assert!(
            notes.contains(&"Not run: no such stack.".into()),
            "{notes:?}"
        );
        let simulated = experiment.run(&options, &Silent);
        let error = simulated.map(|_| ()).map_err(|error| error.to_string());
        assert!(error.is_err_and(|what| what.contains("needs --live")));
    }
}

#[test]
fn live_runs_of_several_flows_may_have_tcp_in_one() {
    let overhead = published("overhead");
    assert_eq!(
        (overhead.name(), overhead.scenario().cells().len()),
        ("overhead", 244)
    );
    let plan = overhead.live(&options(Some(1))).expect("live runs");
    let names: Vec<&str> = plan.runs.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(names.len(), 4 * 5 + 6 * 2);
    assert_eq!(names[0], "counted.20.udp.0");
    assert!(names.contains(&"uncounted.100.cubic.0"), "{names:?}");
    for run in plan.runs {
        let shared = run.name.contains("counted");
        assert_eq!(run.flows.len(), if shared { 2 } else { 1 }, "{}", run.name);
        let is_tcp = |flow: &Connection| matches!(flow.stack, Stack::Tcp { .. });
        let kernel = ["reno", "cubic", "bbr"].contains(&run.name.rsplit('.').nth(1).expect("one"));
        assert!(!is_tcp(&run.flows[0]), "{}", run.name);
        assert_eq!(run.flows.iter().any(is_tcp), kernel, "{}", run.name);
        let world = (run.world)().expect("the network is valid");
        assert_eq!(world.hosts.len(), 2 * run.flows.len());
    }
}

#[test]
fn columns_are_computed_from_columns_before_them() {
    let column = (
        "kbit = [1910, 1600, 900] }",
        "loss = [0, 1, 3], kbit = \"1910 - 310 * loss\" }",
    );
    let folder = Folder::new("columns", &[column]);
    let experiment = Experiment::load(&folder.0).expect("valid");
    let result = experiment.run(&options(Some(1)), &Silent).expect("it runs");
    let published: Vec<Option<f64>> = result.rows.iter().map(|row| row.published).collect();
    assert_eq!(published[..3], [Some(1910.0), Some(1600.0), Some(980.0)]);
    let later = (
        "kbit = [1910, 1600, 900] }",
        "kbit = \"loss\", loss = [0, 1, 3] }",
    );
    let folder = Folder::new("later-columns", &[later]);
    let error = Experiment::load(&folder.0)
        .expect_err("it comes before")
        .to_string();
    assert!(
        error.contains("expected a formula over the columns before it"),
        "{error}"
    );
}

#[test]
fn rows_of_cells_that_do_not_run_are_left_out() {
    let full = (
        "measure = [\"goodput",
        "full_only = [\"one\", \"three\"]\nmeasure = [\"goodput",
    );
    let folder = Folder::new("full-only", &[full]);
    let result = run(&folder, &options(Some(1)));
    let ids: Vec<&str> = result.rows.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(
        ids,
        ["none.goodput"],
        "the row computed from three is left out, too"
    );
    assert_eq!(result.figures[0].series[0].points.len(), 1);
}
