//! Another program flushes the kernel's rule set while the middlebox runs.

use crate::kernel::Kernel;
use crate::network::{Host, Network, READY};

const LOG: &str = "middlebox.log";

/// Grants two long rules, one of them with a wildcard, and a block.
fn grant(network: &Network) {
    let flow = |n: &str| [format!("10.64.0.{n}:4000"), format!("10.65.0.{n}:4000")];
    for n in ["1", "2"] {
        let [internal, external] = &flow(n);
        let per = ["per", "--internal", internal, "--external", external];
        network.agent(&[&per[..], &["--lifetime", "600"]].concat());
    }
    let [internal, external] = &flow("3");
    let pdr = ["pdr", "--internal", internal, "--external", external];
    network.agent(&[&pdr[..], &["--lifetime", "600"]].concat());
}

/// Returns the elements and blocks in the kernel.
fn kernel_state(network: &Network) -> (Vec<String>, Vec<u32>) {
    let kernel = Kernel::now(network);
    let elements = kernel.elements.into_keys().collect();
    (elements, kernel.blocks.into_iter().collect())
}

#[test]
#[ignore = "needs root"]
fn flushed_table_stops_the_middlebox() {
    for flush in ["flush ruleset", "flush chain inet carrick forward"] {
        let network = Network::new();
        let mut middlebox = network.middlebox_for(LOG, "rights = \"all\"");
        grant(&network);
        let granted = kernel_state(&network);
        assert_eq!((granted.0.len(), granted.1.as_slice()), (4, &[3][..]));
        let listed = network.agent(&["list"]);
        network.nft(Host::Firewall, flush);
        // The middlebox detects the flush without a request.
        assert!(!middlebox.0.wait().unwrap().success(), "{flush}");
        let log = network.log(LOG);
        for part in ["nft flush ruleset", "restart the middlebox"] {
            assert!(log.contains(part), "{part:?} in {log}");
        }
        let _next = network.middlebox_for(LOG, "rights = \"all\"");
        assert!(network.log(LOG).contains(READY));
        assert_eq!(kernel_state(&network), granted, "{flush}");
        assert_eq!(network.agent(&["list"]), listed);
        let chain = network.nft(Host::Firewall, "list chain inet carrick forward");
        assert!(
            chain.contains("policy drop") && chain.contains("@out4"),
            "{chain}"
        );
    }
}
