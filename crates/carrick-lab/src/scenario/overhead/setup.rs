//! Networks, and settings of both parts.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use carrick_netsim::{
    ConfigError, Jitter, LinkConfig, LinkId, Network, NetworkBuilder, Node, NodeId, Queue,
};
use carrick_proto::AssociationConfig;
use carrick_proto::cc::Rfc9260;
use carrick_proto::research::{Policies, WindowAnnouncement};

use crate::live::World;

/// Rate of the shared link in bit/s.
pub(super) const RATE: u64 = 1_000_000;
/// One-way delay of the shared link.
pub(super) const DELAY: Duration = Duration::from_millis(10);
/// Queue of the shared link in packets: the default of the paper's simulator, 100 frames.
pub(super) const QUEUE: usize = 100;
/// Maximum random delay of each packet before the shared link in a control, the time of one full packet:
/// it avoids simultaneous losses of two flows with the same round-trip time.
const JITTER: Duration = Duration::from_millis(12);
/// SCTP port of all hosts.
pub(super) const PORT: u16 = 5001;
/// User data of the TCP-like flow's messages in bytes, which fill a packet.
pub(super) const FULL: usize = 1452;
/// Returns the message sizes of the other flow in a full run.
pub(super) fn sizes() -> impl Iterator<Item = usize> {
    (1..=20).map(|n| n * 10)
}

/// Start and duration of the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lengths {
    /// Settling time of two flows on the link.
    pub(super) settled: Duration,
    /// Measurement time of the first part.
    pub(super) measured: Duration,
    /// Measurement time of the slow reader, after its buffer has been full for some time
    /// ([`FULL_FOR_LONG`]).
    pub(super) watched: Duration,
}

/// Measurement times with the published precision.
pub(super) const LONG: Lengths = Lengths {
    settled: Duration::from_secs(50),
    measured: Duration::from_secs(400),
    watched: Duration::from_secs(200),
};
/// Measurement times of a short run: the shares have the same means from 20 s on.
pub(super) const BRIEF: Lengths = Lengths {
    settled: Duration::from_secs(20),
    measured: Duration::from_secs(200),
    watched: Duration::from_secs(100),
};
/// Time at which the slow reader's buffer has been full for some time.
pub(super) const FULL_FOR_LONG: Duration = Duration::from_secs(50);

/// Receive window of the second part: the 65,535 bytes advertised by the INET framework.
pub(super) const WINDOW: usize = 65_535;
/// Mean reading rate of the slow reader in bytes per second.
pub(super) const READING: f64 = 5000.0;
/// Message sizes of the second part.
pub(super) const FLOW_SIZES: [usize; 8] = [20, 50, 100, 200, 400, 700, 1000, 1400];
/// Memory per message that the window does not show, in bytes.
pub(super) const EXTRA: [usize; 5] = [50, 100, 150, 200, 250];

fn address(net: u8, host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, net, 0, host))
}

/// Returns the address of a flow's sender (end 0) or receiver (end 1).
pub(super) fn end_address(flow: usize, end: usize) -> IpAddr {
    address(end as u8 + 1, flow as u8 + 1)
}

/// Settings of a flow in the first part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settings {
    /// RFC 9260's defaults; headers and padding are counted in the outstanding bytes or not.
    Rfc9260 { count_header: bool },
    /// Default settings of a program.
    Modern,
    /// Default settings of a program with RFC 9260's congestion control instead of CUBIC.
    ModernWithoutCubic,
}

impl Settings {
    /// Returns the settings of the stack, the same at both ends.
    pub(super) fn config(self) -> AssociationConfig {
        match self {
            Self::Rfc9260 { count_header } => AssociationConfig::rfc9260().with(|c| {
                c.research.policies = Policies {
                    count_data_header: count_header,
                    ..Policies::default()
                }
            }),
            Self::Modern => AssociationConfig::modern(),
            Self::ModernWithoutCubic => AssociationConfig::modern().with(|c| {
                c.research.policies = Policies {
                    congestion: &Rfc9260,
                    ..Policies::modern()
                }
            }),
        }
    }
}

/// A combination of flows on the link in the first part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sharing {
    /// First part of the identifiers of its rows.
    pub(super) id: &'static str,
    /// Label.
    pub(super) label: &'static str,
    /// Settings of the small messages and of the TCP-like flow.
    pub(super) settings: [Settings; 2],
    /// Random delay of each packet before the shared link.
    pub(super) jitter: Duration,
    /// Maximum number of repetitions.
    pub(super) most: u64,
    /// Runs with all sizes instead of [`CONTROL_SIZES`].
    pub(super) every_size: bool,
}

/// Repetitions of the paper's combinations.
pub(super) const OF_THE_PAPER: u64 = 100;
/// Repetitions with the settings of a program, whose difference from one half is either zero or
/// much larger than the intervals.
const OF_BEST: u64 = 5;
/// Repetitions of a control, which is used only in a note.
const OF_A_CONTROL: u64 = 5;

/// Sizes of a short run, and of controls.
pub(super) const CONTROL_SIZES: [usize; 5] = [10, 20, 50, 100, 200];

impl Sharing {
    /// Returns whether headers and padding are counted in the outstanding bytes.
    pub(super) fn counts_headers(&self) -> bool {
        !self.settings.contains(&UNCOUNTED)
    }

    /// Returns whether messages of this size are simulated.
    pub(super) fn has(&self, size: usize) -> bool {
        self.every_size || CONTROL_SIZES.contains(&size)
    }
}

/// Settings of the paper's flows.
pub(super) const COUNTED: Settings = Settings::Rfc9260 { count_header: true };
const UNCOUNTED: Settings = Settings::Rfc9260 {
    count_header: false,
};

/// Indices in [`SHARINGS`].
pub(super) mod place {
    pub(in super::super) const COUNTED: usize = 0;
    pub(in super::super) const UNCOUNTED: usize = 1;
    pub(in super::super) const DELAYED: usize = 2;
    pub(in super::super) const BEST: usize = 3;
    pub(in super::super) const BEST_PAIR: usize = 4;
    pub(in super::super) const WITHOUT_CUBIC: usize = 5;
}

/// Counted and not counted, as in the paper; not counted with a random delay that avoids simultaneous
/// losses; the settings of a program with the TCP-like flow, with themselves, and without CUBIC.
pub(super) const SHARINGS: [Sharing; 6] = [
    Sharing {
        id: "counted",
        label: "headers counted",
        settings: [COUNTED; 2],
        jitter: Duration::ZERO,
        most: OF_THE_PAPER,
        every_size: true,
    },
    Sharing {
        id: "uncounted",
        label: "headers not counted",
        settings: [UNCOUNTED; 2],
        jitter: Duration::ZERO,
        most: OF_THE_PAPER,
        every_size: true,
    },
    Sharing {
        id: "delayed",
        label: "control: not counted, random delays",
        settings: [UNCOUNTED; 2],
        jitter: JITTER,
        most: OF_A_CONTROL,
        every_size: false,
    },
    Sharing {
        id: "best-beside",
        label: "best: a program’s settings with the TCP-like flow",
        settings: [Settings::Modern, COUNTED],
        jitter: Duration::ZERO,
        most: OF_BEST,
        every_size: false,
    },
    Sharing {
        id: "best-pair",
        label: "best: a program’s settings, both flows",
        settings: [Settings::Modern; 2],
        jitter: Duration::ZERO,
        most: OF_BEST,
        every_size: false,
    },
    Sharing {
        id: "without-cubic",
        label: "control: a program’s settings without CUBIC with the TCP-like flow",
        settings: [Settings::ModernWithoutCubic, COUNTED],
        jitter: Duration::ZERO,
        most: OF_A_CONTROL,
        every_size: false,
    },
];

/// Builds the hosts of each flow (sender, receiver) on both sides of the shared link.
pub(super) fn network(
    seed: u64,
    jitter: Duration,
    flows: Vec<[Box<dyn Node>; 2]>,
) -> Result<(Network, Vec<[NodeId; 2]>, LinkId), ConfigError> {
    let (mut builder, nodes, link) = hosts(seed, jitter, flows.len());
    for (hosts, programs) in nodes.iter().zip(flows) {
        for (host, program) in hosts.iter().zip(programs) {
            builder.set_node_program(*host, program);
        }
    }
    Ok((builder.build()?, nodes, link))
}

/// Builds the network of a number of flows for a live run.
pub(super) fn live_world(seed: u64, flows: usize) -> Result<World, ConfigError> {
    let (builder, hosts, _) = hosts(seed, Duration::ZERO, flows);
    Ok(World {
        network: builder.build()?,
        hosts,
        changes: Vec::new(),
    })
}

fn hosts(seed: u64, jitter: Duration, flows: usize) -> (NetworkBuilder, Vec<[NodeId; 2]>, LinkId) {
    let mut builder = NetworkBuilder::new(seed);
    let routers = ["near router", "far router"].map(|name| builder.add_router(name));
    let [near, far] = routers.map(|router| builder.add_interface(router, []));
    let shared = LinkConfig::new(RATE, DELAY).with_queue(Queue::packets(QUEUE));
    let link = builder.connect_both(near, far, shared);
    let access = LinkConfig {
        jitter: Jitter::Uniform(jitter),
        ..LinkConfig::default()
    };
    let nodes = (0..flows).map(|flow| {
        [0, 1].map(|end: usize| {
            let host = builder.add_host(format!("{}-{flow}", ["sender", "receiver"][end]));
            let interface = builder.add_interface(host, [end_address(flow, end)]);
            let port = builder.add_interface(routers[end], []);
            builder.connect(interface, port, access.clone(), LinkConfig::default());
            host
        })
    });
    let nodes = nodes.collect();
    (builder, nodes, link)
}

/// Setting of flow control in the second part.
#[derive(Clone, Debug)]
pub(super) struct FlowControlSetting {
    /// Part of the identifiers of its rows.
    pub(super) id: String,
    /// Label.
    pub(super) label: String,
    /// Memory of each message in addition to its payload, in bytes.
    pub(super) extra: usize,
    /// Contents of the advertised window.
    pub(super) announcement: WindowAnnouncement,
    /// Silly window avoidance at the sender and at the receiver.
    pub(super) avoidance: [bool; 2],
    /// Nagle's algorithm.
    pub(super) nagle: bool,
    /// Uses a program's settings without changes; the fields above are not applied.
    pub(super) as_it_is: bool,
}

impl FlowControlSetting {
    fn hidden(extra: usize) -> Self {
        Self {
            id: format!("extra{extra}"),
            label: format!("{extra} bytes not shown"),
            extra,
            announcement: WindowAnnouncement::PayloadOnly,
            avoidance: [true; 2],
            nagle: true,
            as_it_is: false,
        }
    }

    fn switched(&self, avoidance: [bool; 2], nagle: bool) -> Self {
        let name = match avoidance {
            [true, true] => "sws-both",
            [true, false] => "sws-sender",
            [false, true] => "sws-receiver",
            [false, false] => "sws-none",
        };
        let words = match avoidance {
            [true, true] => "avoidance at both ends",
            [true, false] => "avoidance at the sender only",
            [false, true] => "avoidance at the receiver only",
            [false, false] => "no avoidance",
        };
        let nagle_name = if nagle { "" } else { "-no-nagle" };
        Self {
            id: format!("{}.{name}{nagle_name}", self.id),
            label: format!(
                "{}, {words}{}",
                self.label,
                if nagle { "" } else { ", Nagle off" }
            ),
            avoidance,
            nagle,
            ..self.clone()
        }
    }

    /// Returns the settings of the stack, the same at both ends.
    pub(super) fn config(&self) -> AssociationConfig {
        if self.as_it_is {
            return AssociationConfig::modern();
        }
        let [sender, receiver] = self.avoidance;
        AssociationConfig::rfc9260().with(|c| {
            c.buffers.receive_buffer = WINDOW;
            c.buffers.receive_buffer_chunks = usize::MAX;
            c.buffers.message_overhead = self.extra;
            c.research.sender_sws_avoidance = sender;
            c.research.receiver_sws_avoidance = receiver;
            c.transmission.nagle = self.nagle;
            c.buffers.send_buffer = 1 << 16;
            c.research.policies = Policies {
                window_announcement: self.announcement,
                ..Policies::default()
            };
        })
    }
}

/// Returns all types: memory not shown (Fig. 5), silly window avoidance and Nagle (Fig. 6), the two
/// true windows (Fig. 7), and the defaults.
pub(super) fn flows() -> Vec<FlowControlSetting> {
    const SWITCHES: [[bool; 2]; 4] = [[true, true], [true, false], [false, true], [false, false]];
    let mut all: Vec<FlowControlSetting> = EXTRA.map(FlowControlSetting::hidden).into();
    let least = FlowControlSetting::hidden(EXTRA[0]);
    let switched = |flow: &FlowControlSetting| {
        [true, false].map(|nagle| SWITCHES.map(|avoidance| flow.switched(avoidance, nagle)))
    };
    // The first one is `least` itself.
    all.extend(switched(&least).into_iter().flatten().skip(1));
    let truth = FlowControlSetting {
        id: "true".into(),
        label: "true window, 250 bytes".into(),
        extra: 250,
        announcement: WindowAnnouncement::Fitting,
        ..least.clone()
    };
    let memory = FlowControlSetting {
        id: "memory-left".into(),
        label: "remaining memory advertised, 250 bytes".into(),
        announcement: WindowAnnouncement::True,
        ..truth.clone()
    };
    for avoidance in [[true, true], [false, false]] {
        all.push(memory.switched(avoidance, true));
    }
    for nagle in [true, false] {
        for avoidance in [[true, true], [false, false]] {
            all.push(truth.switched(avoidance, nagle));
        }
    }
    let defaults = AssociationConfig::rfc9260();
    let best = FlowControlSetting {
        id: "best".into(),
        label: "default settings, window of 65,535 bytes".into(),
        extra: defaults.buffers.message_overhead,
        announcement: defaults.research.policies.window_announcement,
        avoidance: [
            defaults.research.sender_sws_avoidance,
            defaults.research.receiver_sws_avoidance,
        ],
        nagle: defaults.transmission.nagle,
        as_it_is: false,
    };
    all.push(FlowControlSetting {
        id: "best-as-it-is".into(),
        label: "a program’s settings without changes".into(),
        as_it_is: true,
        ..best.clone()
    });
    all.push(best);
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn settings_are_valid_and_names_are_unique() {
        let flows = flows();
        for flow in &flows {
            assert_eq!(flow.config().validate(), Ok(()), "{}", flow.id);
        }
        let names: BTreeSet<&str> = flows.iter().map(|f| f.id.as_str()).collect();
        assert_eq!(names.len(), flows.len());
        assert_eq!(flows.len(), 5 + 7 + 2 + 4 + 2);
    }

    #[test]
    fn best_uses_the_default_settings() {
        let program = format!("{:?}", AssociationConfig::modern());
        assert_eq!(format!("{:?}", Settings::Modern.config()), program);
        let flows = flows();
        let best = flows.iter().find(|flow| flow.as_it_is);
        assert_eq!(
            best.map(|flow| format!("{:?}", flow.config())),
            Some(program)
        );
        let without = Settings::ModernWithoutCubic.config();
        assert_eq!(without.validate(), Ok(()));
        assert_eq!(without.research.policies.congestion.name(), "rfc9260");
    }

    #[test]
    fn indices_match_the_names() {
        use place::*;

        let names = [
            (COUNTED, "counted"),
            (UNCOUNTED, "uncounted"),
            (DELAYED, "delayed"),
            (BEST, "best-beside"),
            (BEST_PAIR, "best-pair"),
            (WITHOUT_CUBIC, "without-cubic"),
        ];
        for (place, name) in names {
            assert_eq!(SHARINGS[place].id, name);
        }
        assert_eq!(names.len(), SHARINGS.len());
    }
}
