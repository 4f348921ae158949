//! A simulated network in real time, between network namespaces of this host.
//!
//! The second of the three clocks: each host of a [`carrick_netsim::Network`] becomes a network
//! namespace with a TUN device for each of its interfaces, and one thread carries packets between
//! them through the very links, queues and routers of the simulator, in real time. Whatever runs in a
//! namespace takes part: the kernel's TCP, SCTP in user space, any program of a user's. Addresses that come
//! and go in the network do so on the interfaces in the namespaces as well.
//!
//! ```no_run
//! use std::time::Duration;
//! use carrick_livenet::{LiveNetwork, Plan};
//! use carrick_netsim::{LinkConfig, NetworkBuilder};
//!
//! let live = LiveNetwork::start("example", || {
//!     let mut builder = NetworkBuilder::new(1);
//!     let hosts = ["a", "b"].map(|name| builder.add_host(name));
//!     let a = builder.add_interface(hosts[0], ["10.0.0.1".parse().expect("an address")]);
//!     let b = builder.add_interface(hosts[1], ["10.0.0.2".parse().expect("an address")]);
//!     builder.connect_both(a, b, LinkConfig::delay(Duration::from_millis(20)));
//!     Ok(Plan::new(builder.build()?, hosts))
//! })?;
//! let pinged = live.host("a")?.command("ping", &["-c", "1", "10.0.0.2"])?;
//! assert!(pinged.status.success());
//! # Ok::<(), carrick_livenet::Error>(())
//! ```
//!
//! Needs Linux and root (`CAP_NET_ADMIN` and `CAP_SYS_ADMIN`), and the programs `ip` and `sysctl`'s
//! files. The namespaces have no names: the kernel removes them, with all devices, addresses and
//! routes, when the process ends, however it ends. While it runs, a [`Directory`] says where they are,
//! so that [`enter`] finds them from another process.
#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

mod accuracy;
mod blueprint;
mod directory;
mod emulator;
mod error;
mod follower;
mod host;
mod namespace;
mod network;
mod scheduling;
mod standstill;
mod tap;

pub use accuracy::{Accuracy, Alone, DelayErrors, Later, RateError, Stood};
pub use directory::{Directory, enter, running, start};
pub use emulator::{Emulation, Plan};
pub use error::Error;
pub use host::Host;
pub use namespace::Namespace;
pub use network::LiveNetwork;
pub use standstill::{Standstills, Watch};
pub use tap::{Tapped, Way};
