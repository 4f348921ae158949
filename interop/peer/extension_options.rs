//! Extensions on the command line: those offered, and operations during the transfer.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};

#[derive(Args, Clone, Debug)]
pub(crate) struct ExtensionOptions {
    /// Extensions to offer: partial, authentication, addresses, reconfiguration, interleaving, ecn,
    /// zero-checksum; or none [default: those of the stack]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) extensions: Option<Vec<ExtensionName>>,
    /// source: when messages are abandoned: full (never), timed:MS or retransmissions:N
    #[arg(long, value_name = "RULE", value_parser = reliability, default_value = "full")]
    pub(crate) reliability: AbandonRule,
    /// Messages may be missing
    #[arg(long)]
    pub(crate) gaps: bool,
    /// A side that nothing arrives at for MS milliseconds is done; 0: however long
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub(crate) idle: u64,
    /// Chunk types accepted only authenticated, as numbers
    #[arg(long, value_name = "TYPE,...", value_delimiter = ',')]
    pub(crate) authenticate: Vec<u8>,
    /// Shared keys; the first is used
    #[arg(long, value_name = "ID:SECRET,...", value_delimiter = ',', value_parser = key)]
    pub(crate) keys: Vec<Key>,
    /// Preferred algorithm
    #[arg(long, value_enum, default_value = "sha256")]
    pub(crate) hmac: Hmac,
    /// Stream scheduler
    #[arg(long, value_enum, default_value = "fcfs")]
    pub(crate) scheduler: Scheduler,
    /// Path MTU discovery
    #[arg(long)]
    pub(crate) search_mtu: bool,
    /// Operation to perform after this number of user bytes sent and received
    #[arg(long = "do", value_name = "OPERATION@BYTES")]
    pub(crate) operations: Vec<PlannedOperation>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ExtensionName {
    Partial,
    Authentication,
    Addresses,
    Reconfiguration,
    Interleaving,
    Ecn,
    ZeroChecksum,
    None,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hmac {
    Sha1,
    Sha256,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scheduler {
    Fcfs,
    Rr,
}

/// Shared key of RFC 4895.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) id: u16,
    pub(crate) secret: Vec<u8>,
}

/// When messages of a source are abandoned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AbandonRule {
    Never,
    Timed(Duration),
    Retransmissions(u32),
}

/// Operation, and the number of user bytes after which it is performed.
#[derive(Clone, Debug)]
pub(crate) struct PlannedOperation {
    pub(crate) name: String,
    pub(crate) operation: Operation,
    pub(crate) after: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    AddAddress(IpAddr),
    DeleteAddress(IpAddr),
    /// Request the peer to use this local address as its primary path.
    SetPrimary(IpAddr),
    /// Reset the outgoing streams below this number, or all with a list of none.
    ResetOutgoing(Option<u16>),
    ResetIncoming,
    ResetAssociation,
    AddStreams(u16, u16),
    UseKey(u16),
}

impl FromStr for PlannedOperation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not OPERATION@BYTES");
        let (name, after) = text.rsplit_once('@').ok_or_else(wrong)?;
        let (what, value) = name.split_once('=').unwrap_or((name, ""));
        let address = || value.parse().map_err(|_| wrong());
        let number = |text: &str| text.parse::<u16>().map_err(|_| wrong());
        let operation = match what {
            "add-address" => Operation::AddAddress(address()?),
            "delete-address" => Operation::DeleteAddress(address()?),
            "set-primary" => Operation::SetPrimary(address()?),
            "reset-out" if value.is_empty() => Operation::ResetOutgoing(None),
            "reset-out" => Operation::ResetOutgoing(Some(number(value)?)),
            "reset-in" => Operation::ResetIncoming,
            "reset-association" => Operation::ResetAssociation,
            "add-streams" => {
                let (out, incoming) = value.split_once('/').ok_or_else(wrong)?;
                Operation::AddStreams(number(out)?, number(incoming)?)
            }
            "use-key" => Operation::UseKey(number(value)?),
            _ => return Err(wrong()),
        };
        Ok(Self {
            name: name.to_owned(),
            operation,
            after: after.parse().map_err(|_| wrong())?,
        })
    }
}

fn reliability(text: &str) -> Result<AbandonRule, String> {
    let number = |text: &str| {
        text.parse::<u32>()
            .map_err(|_| format!("'{text}' is not a number"))
    };
    match text.split_once(':') {
        None if text == "full" => Ok(AbandonRule::Never),
        Some(("timed", ms)) => Ok(AbandonRule::Timed(Duration::from_millis(
            number(ms)?.into(),
        ))),
        Some(("retransmissions", count)) => Ok(AbandonRule::Retransmissions(number(count)?)),
        _ => Err("give full, timed:MS or retransmissions:N".into()),
    }
}

fn key(text: &str) -> Result<Key, String> {
    let wrong = || "give ID:SECRET".to_owned();
    let (id, secret) = text.split_once(':').ok_or_else(wrong)?;
    Ok(Key {
        id: id.parse().map_err(|_| wrong())?,
        secret: secret.as_bytes().to_vec(),
    })
}
