//! Rules and elements in the kernel, as `nft` lists them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::network::{Host, Network};

/// Number of a flow: the last two octets of the hosts' addresses.
pub(crate) type FlowNumber = u32;

/// State of the table at one time.
#[derive(Debug, Default)]
pub(crate) struct Kernel {
    /// Elements of sets and maps as text, with the flow and the remaining whole seconds.
    pub(crate) elements: BTreeMap<String, (FlowNumber, u64)>,
    /// Blocked flows.
    pub(crate) blocks: BTreeSet<FlowNumber>,
    /// Number of active blocks.
    pub(crate) active_blocks: usize,
}

/// Formats an element as text: its set, its key and its data.
pub(crate) fn element(set: &str, key: &Value, data: Option<&Value>) -> String {
    match data {
        Some(data) => format!("{set} {key} {data}"),
        None => format!("{set} {key}"),
    }
}

/// Returns the number of the flow of an address.
pub(crate) fn flow_of(address: &str) -> Option<FlowNumber> {
    let rest = ["10.64.", "10.65."]
        .iter()
        .find_map(|net| address.strip_prefix(net))?;
    let (high, low) = rest.split_once('.')?;
    Some(high.parse::<u32>().ok()? << 8 | low.parse::<u32>().ok()?)
}

impl Kernel {
    pub(crate) fn now(network: &Network) -> Self {
        let list = ["-j", "list", "ruleset"];
        let output = network.command(Host::Firewall, "nft", &list).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut kernel = Self::default();
        for object in listed["nftables"].as_array().unwrap() {
            for kind in ["set", "map"] {
                if let Some(set) = object.get(kind) {
                    kernel.take_set(set);
                }
            }
            if let Some(rule) = object.get("rule").filter(|rule| rule["chain"] == "blocks") {
                let matches = rule["expr"].as_array().unwrap().iter();
                let address = matches.filter_map(|part| part["match"]["right"].as_str());
                kernel.blocks.extend(address.filter_map(flow_of));
            }
        }
        kernel
    }

    fn take_set(&mut self, set: &Value) {
        let name = set["name"].as_str().unwrap();
        // A start that is killed while it examines the kernel leaves this set to the next start.
        if name == "probe" {
            return;
        }
        for listed in set["elem"].as_array().into_iter().flatten() {
            let (found, data) = match listed.as_array() {
                Some(pair) => (&pair[0]["elem"], Some(&pair[1]["concat"])),
                None => (&listed["elem"], None),
            };
            if name == "alive" {
                self.active_blocks += 1;
                continue;
            }
            let key = &found["val"]["concat"];
            let mut parts = key.as_array().unwrap().iter();
            let flow = parts.find_map(|part| flow_of(part.as_str()?)).unwrap();
            // An element that expires at this moment is listed without "expires".
            assert!(
                found["timeout"].is_u64(),
                "an element without timeout: {listed}"
            );
            let left = found["expires"].as_u64().unwrap_or(0);
            self.elements.insert(element(name, key, data), (flow, left));
        }
    }
}
