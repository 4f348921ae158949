//! Flows over M3UA and M2PA.

use super::{measured, value};
use crate::file::ScenarioFile;

const FILE: &str = r#"
duration = "6 s"
measure = ["delay.mean", "delivered.share", "misdelivered", "interruption", "lost"]
[settings.short]
rto_initial = "200 ms"
rto_min = "200 ms"
nagle = false
[hosts.a]
settings = "short"
addresses = { one = "10.1.0.1", two = "10.2.0.1" }
[hosts.b]
settings = "short"
addresses = { one = "10.1.0.2", two = "10.2.0.2" }
[links.one]
between = ["a", "b"]
rate = "10 Mbit/s"
delay = "10 ms"
[links.two]
between = ["a", "b"]
rate = "10 Mbit/s"
delay = "10 ms"
[flows.f]
from = "a"
to = "b"
kind = "constant"
size = "100 bytes"
interval = "20 ms"
start = "2 s"
stop = "5 s"
layer = "m3ua"
"#;

fn with(from: &str, to: &str) -> String {
    assert!(FILE.contains(from), "{from}");
    FILE.replace(from, to)
}

/// Asserts that each message was delivered once and in order.
fn assert_complete(rows: &[(String, f64)]) {
    let of = |measure| value(rows, &format!("f.{measure}"));
    assert!((of("delivered.share") - 100.0).abs() < 1e-9, "{rows:?}");
    assert!(of("misdelivered").abs() < 1e-9, "{rows:?}");
}

#[test]
fn layers_deliver_each_message() {
    for layer in ["sctp", "m3ua", "m2pa", "m2pa-links"] {
        let rows = measured(&with("\"m3ua\"", &format!("\"{layer}\"")));
        let of = |measure| value(&rows, &format!("f.{measure}"));
        assert_complete(&rows);
        // The propagation delay and the message with its headers.
        let mean = of("delay.mean");
        assert!((10.1..10.3).contains(&mean), "{layer}: {mean}");
    }
}

/// RFC 4165, section 4.2.3
#[test]
fn a_changeover_loses_no_message() {
    let settings = r#"layer = "m2pa-links"
[[schedule]]
at = "3 s"
link = "one"
loss = "100 %"
"#;
    let text = with("layer = \"m3ua\"\n", settings);
    let rows = measured(&text.replace("nagle", "association_max_retrans = 1\nnagle"));
    let of = |measure| value(&rows, &format!("f.{measure}"));
    assert_complete(&rows);
    assert!((0.5..0.8).contains(&of("lost")), "{}", of("lost"));
    assert!(of("interruption") > 1000.0 * of("lost"));
}

#[test]
fn layers_need_hosts_and_flows_that_suit() {
    let other =
        "[flows.g]\nfrom = \"a\"\nto = \"b\"\nkind = \"bulk\"\nsize = \"100 bytes\"\n[flows.h]";
    for (from, to, expected) in [
        ("\"m3ua\"", "\"m2ua\"", "\"m2pa-links\""),
        (
            "kind = \"constant\"",
            "kind = \"constant\"\nresponse = \"100 bytes\"",
            "no responses",
        ),
        ("[flows.f]", other, "no other active flow"),
        (", two = \"10.2.0.2\"", "", "two addresses each"),
    ] {
        let layer = if from.contains("two") {
            "m2pa-links"
        } else {
            "m3ua"
        };
        let text = with(from, to).replace("layer = \"m3ua\"", &format!("layer = \"{layer}\""));
        let error = ScenarioFile::parse("x.toml", &text)
            .expect_err(to)
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
}
