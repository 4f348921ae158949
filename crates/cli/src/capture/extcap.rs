//! Wireshark's interface for external capture programs (extcap), through a script of two lines in its folder of
//! extcap programs (`docs/sockets.md`).

use std::path::PathBuf;

use clap::Args;

/// Name of the only interface.
const INTERFACE: &str = "carrick";

/// Arguments that Wireshark passes.
#[derive(Debug, Args)]
pub(super) struct WiresharkArguments {
    #[arg(long, hide = true)]
    extcap_interfaces: bool,
    #[arg(long, hide = true, value_name = "NAME", value_parser = [INTERFACE])]
    extcap_interface: Option<String>,
    #[arg(long, hide = true)]
    extcap_dlts: bool,
    #[arg(long, hide = true)]
    extcap_config: bool,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "")]
    extcap_version: Option<String>,
    /// Wireshark offers no capture filter for an interface without its library; an empty one is passed.
    #[arg(long, hide = true)]
    extcap_capture_filter: Option<String>,
    #[arg(long, hide = true, requires = "fifo")]
    capture: bool,
    #[arg(long, hide = true, requires = "capture")]
    pub(super) fifo: Option<PathBuf>,
}

/// Returns the answer to a question of Wireshark; `None` for a capture.
pub(super) fn answer(arguments: &WiresharkArguments) -> Option<String> {
    if arguments.extcap_interfaces {
        return Some(format!(
            "extcap {{version={}}}{{help={}}}\n\
             interface {{value={INTERFACE}}}{{display=SCTP of the Carrick daemon}}\n",
            env!("CARGO_PKG_VERSION"),
            env!("CARGO_PKG_REPOSITORY"),
        ));
    }
    if arguments.extcap_dlts {
        return Some(
            "dlt {number=101}{name=RAW}{display=IP packets without a link layer}\n".into(),
        );
    }
    if arguments.extcap_config {
        return Some(
            "arg {number=0}{call=--port}{display=SCTP port}{tooltip=On either side; 1 to 65535}{type=unsigned}{range=1,65535}{required=false}\n\
             arg {number=1}{call=--association}{display=Association}{tooltip=Its number in carrick ss --json}{type=unsigned}{required=false}\n\
             arg {number=2}{call=--daemon}{display=Control socket}{tooltip=Path of the control socket of the daemon}{type=string}{required=false}\n"
                .into(),
        );
    }
    None
}
