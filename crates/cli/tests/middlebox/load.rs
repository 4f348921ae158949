//! A load over SCTP on the kernel's packet filter, with the state on disk.

use serde_json::Value;

use crate::network::{Host, Network, until};

#[test]
#[ignore = "needs root"]
fn load_over_sctp_leaves_no_rules() {
    let network = Network::new();
    let _middlebox = network.middlebox("middlebox.log");
    let load = [
        "simco",
        "load",
        "--json",
        "--middlebox",
        "sctp://127.0.0.1",
        "--streams",
        "8",
        "--rate",
        "300",
        "--hold",
        "1s",
        "--refresh",
        "1s",
        "--lifetime",
        "3",
        "--time",
        "5s",
    ];
    let mut running = network.carrick(Host::Firewall, "load.log", &load);
    until("pinholes in the kernel", || network.elements() > 100);
    assert!(
        running.0.wait().unwrap().success(),
        "{}",
        network.log("load.log")
    );
    let log = network.log("load.log");
    let report: Value = serde_json::from_str(log.trim()).unwrap_or_else(|e| panic!("{log}: {e}"));
    assert_eq!(report["streams"], 8);
    for kind in ["refused", "timed_out", "suppressed", "not_taken", "expired"] {
        assert_eq!(report["failures"][kind], 0, "{report}");
    }
    assert_eq!(report["started"], report["transactions"], "{report}");
    for kind in ["enable", "refresh", "close"] {
        assert!(report[kind]["count"].as_u64().unwrap() > 100, "{report}");
    }
    // The pinholes that the load left open expire, and the middlebox closes them.
    until("nothing is open", || network.elements() == 0);
}
