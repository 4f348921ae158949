//! The presets of the core on failures that they are made for.

use super::{measured, value};

/// A flow of messages over two paths with a round trip of 20 ms, and what happens to the first one.
fn two_paths(flow: &str, happens: &str) -> String {
    format!(
        r#"
title = "two paths"
duration = "120 s"
measure = ["delivered.share", "delay.p50", "delay.max", "failovers", "timeouts", "survived"]
[settings.recommended]
base = "modern"
[hosts.a]
addresses = {{ one = "10.0.0.1", two = "10.1.0.1" }}
[hosts.b]
addresses = {{ one = "10.0.0.2", two = "10.1.0.2" }}
[links.one]
between = ["a", "b"]
rate = "10 Mbit/s"
delay = "10 ms"
queue = "100 packets"
[links.two]
between = ["a", "b"]
rate = "10 Mbit/s"
delay = "10 ms"
queue = "100 packets"
[[schedule]]
at = "10 s"
link = "one"
{happens}
[flows.data]
from = "a"
to = "b"
kind = "constant"
primary = "one"
{flow}
[[sweep]]
names = ["recommended", "signaling"]
"hosts.*.settings" = ["recommended", "signaling"]
"#
    )
}

/// RFC 9260, section 7.3; RFC 8899, section 4.3: the primary path drops packets above 1400 bytes.
#[test]
fn a_black_hole_delays_one_message() {
    let flow = "size = \"2000 bytes\"\ninterval = \"1.013 s\"";
    let rows = measured(&two_paths(flow, "mtu = 1400\nmtu_black_hole = true"));
    for preset in ["recommended", "signaling"] {
        let value = |measure: &str| value(&rows, &format!("{preset}.data.{measure}"));
        assert!((value("delivered.share") - 100.0).abs() < 1e-9, "{rows:?}");
        assert!((value("timeouts") - 1.0).abs() < 1e-9, "{rows:?}");
        // Without the hole: 10 ms, and 1.7 ms on the link.
        assert!(value("delay.p50") < 15.0, "{rows:?}");
        // Two RTOs.
        assert!(value("delay.max") < 2000.0, "{rows:?}");
    }
}

/// RFC 7829, section 3: signaling messages each 20 ms, and the first path fails.
#[test]
fn a_failed_path_delays_signaling_by_less_than_300_ms() {
    let flow = "size = \"200 bytes\"\ninterval = \"20 ms\"";
    let rows = measured(&two_paths(flow, "loss = \"100 %\""));
    let longest = |preset: &str| value(&rows, &format!("{preset}.data.delay.max"));
    assert!(longest("signaling") < 300.0, "{rows:?}");
    assert!(longest("recommended") < 2000.0, "{rows:?}");
    let delivered = value(&rows, "signaling.data.delivered.share");
    assert!((delivered - 100.0).abs() < 1e-9, "{rows:?}");
}
