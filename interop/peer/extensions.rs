//! Extensions on the command line: those offered, and operations during the transfer.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use carrick::{
    AssociationConfig, AssociationStats, ChunkType, Endpoint, Extensions, HmacId, OperationError,
    PathMtuDiscovery, PathStats, ReconfigError, Reliability, SendHalf, SharedKey, SharedKeyId,
    StreamDirection, StreamId, StreamScheduler,
};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::output::emit;

/// Pause before an operation is repeated that was not possible.
const RETRY: Duration = Duration::from_millis(20);

#[derive(Args, Clone, Debug)]
pub(crate) struct ExtensionOptions {
    /// Extensions to offer: partial, authentication, addresses, reconfiguration, interleaving, ecn; or
    /// none [default: those of the stack]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    extensions: Option<Vec<Name>>,
    /// source: when messages are abandoned: full (never), timed:MS or retransmissions:N
    #[arg(long, value_name = "RULE", value_parser = reliability, default_value = "full")]
    pub(crate) reliability: Reliability,
    /// Messages may be missing
    #[arg(long)]
    pub(crate) gaps: bool,
    /// Chunk types accepted only authenticated, as numbers
    #[arg(long, value_name = "TYPE,...", value_delimiter = ',')]
    authenticate: Vec<u8>,
    /// Shared keys; the first is used
    #[arg(long, value_name = "ID:SECRET,...", value_delimiter = ',', value_parser = key)]
    keys: Vec<SharedKey>,
    /// Preferred algorithm
    #[arg(long, value_enum, default_value = "sha256")]
    hmac: Hmac,
    /// Stream scheduler
    #[arg(long, value_enum, default_value = "fcfs")]
    scheduler: Scheduler,
    /// Path MTU discovery
    #[arg(long)]
    search_mtu: bool,
    /// Operation to perform after this number of user bytes sent and received
    #[arg(long = "do", value_name = "OPERATION@BYTES")]
    operations: Vec<PlannedOperation>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Name {
    Partial,
    Authentication,
    Addresses,
    Reconfiguration,
    Interleaving,
    Ecn,
    None,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Hmac {
    Sha1,
    Sha256,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Scheduler {
    Fcfs,
    Rr,
}

/// Operation, and the number of user bytes after which it is performed.
#[derive(Clone, Debug)]
struct PlannedOperation {
    name: String,
    operation: Operation,
    after: u64,
}

#[derive(Clone, Debug)]
enum Operation {
    AddAddress(IpAddr),
    DeleteAddress(IpAddr),
    /// Request the peer to use this local address as its primary path.
    SetPrimary(IpAddr),
    Reset(StreamDirection),
    ResetAssociation,
    AddStreams(u16, u16),
    UseKey(SharedKeyId),
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
            "reset-out" => Operation::Reset(StreamDirection::Outgoing),
            "reset-in" => Operation::Reset(StreamDirection::Incoming),
            "reset-association" => Operation::ResetAssociation,
            "add-streams" => {
                let (out, incoming) = value.split_once('/').ok_or_else(wrong)?;
                Operation::AddStreams(number(out)?, number(incoming)?)
            }
            "use-key" => Operation::UseKey(SharedKeyId(number(value)?)),
            _ => return Err(wrong()),
        };
        Ok(Self {
            name: name.to_owned(),
            operation,
            after: after.parse().map_err(|_| wrong())?,
        })
    }
}

fn reliability(text: &str) -> Result<Reliability, String> {
    let number = |text: &str| {
        text.parse::<u32>()
            .map_err(|_| format!("'{text}' is not a number"))
    };
    match text.split_once(':') {
        None if text == "full" => Ok(Reliability::Full),
        Some(("timed", ms)) => Ok(Reliability::Timed(Duration::from_millis(
            number(ms)?.into(),
        ))),
        Some(("retransmissions", count)) => Ok(Reliability::Retransmissions(number(count)?)),
        _ => Err("give full, timed:MS or retransmissions:N".into()),
    }
}

fn key(text: &str) -> Result<SharedKey, String> {
    let wrong = || "give ID:SECRET".to_owned();
    let (id, secret) = text.split_once(':').ok_or_else(wrong)?;
    Ok(SharedKey {
        id: SharedKeyId(id.parse().map_err(|_| wrong())?),
        secret: secret.as_bytes().to_vec().into(),
    })
}

impl ExtensionOptions {
    /// Applies the extensions of the command line to a configuration.
    pub(crate) fn apply(&self, mut config: AssociationConfig) -> AssociationConfig {
        if let Some(names) = &self.extensions {
            let has = |name| names.contains(&name);
            let mut offered = Extensions::NONE;
            offered.partial_reliability = has(Name::Partial);
            offered.authentication = has(Name::Authentication);
            offered.dynamic_addresses = has(Name::Addresses);
            offered.reconfiguration = has(Name::Reconfiguration);
            offered.interleaving = has(Name::Interleaving);
            offered.interleaved_partial_reliability =
                offered.partial_reliability && offered.interleaving;
            offered.ecn = has(Name::Ecn);
            config.extensions = offered;
        }
        let authentication = &mut config.security.authentication;
        authentication.required = self.authenticate.iter().map(|t| ChunkType(*t)).collect();
        if self.hmac == Hmac::Sha1 {
            authentication.algorithms = vec![HmacId::SHA_1];
        }
        if let Some(first) = self.keys.first() {
            authentication.active = first.id;
            authentication.keys.clone_from(&self.keys);
        }
        if self.scheduler == Scheduler::Rr {
            config.streams.scheduler = StreamScheduler::RoundRobin;
        }
        if self.search_mtu {
            config.mtu.path_mtu_discovery = Some(PathMtuDiscovery::default());
        }
        config
    }

    pub(crate) fn plan(&self) -> PendingOperations {
        PendingOperations {
            waiting: self.operations.clone().into(),
            retry_at: None,
        }
    }
}

/// Operations that are not complete.
pub(crate) struct PendingOperations {
    waiting: VecDeque<PlannedOperation>,
    retry_at: Option<Instant>,
}

impl PendingOperations {
    pub(crate) fn is_done(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Performs the operations that are due.
    pub(crate) async fn carry_out(&mut self, bytes: u64, endpoint: &Endpoint, sender: &SendHalf) {
        if self.retry_at.is_some_and(|at| at > Instant::now()) {
            return;
        }
        self.retry_at = None;
        while self
            .waiting
            .front()
            .is_some_and(|planned| planned.after <= bytes)
            && let Some(planned) = self.waiting.pop_front()
        {
            let result = match perform(&planned.operation, endpoint, sender).await {
                Ok(()) => "asked".to_owned(),
                Err(Refusal::Never(why)) => why,
                Err(Refusal::NotNow) => {
                    self.retry_at = Some(Instant::now() + RETRY);
                    self.waiting.push_front(planned);
                    return;
                }
            };
            emit(
                "did",
                json!({ "operation": planned.name, "result": result }),
            );
        }
    }
}

enum Refusal {
    NotNow,
    Never(String),
}

fn never(error: &impl ToString) -> Refusal {
    Refusal::Never(error.to_string())
}

async fn perform(
    operation: &Operation,
    endpoint: &Endpoint,
    sender: &SendHalf,
) -> Result<(), Refusal> {
    let reconfigured = |result| match result {
        Err(OperationError::Reconfig(ReconfigError::InProgress)) => Err(Refusal::NotNow),
        other => other.map_err(|e| never(&e)),
    };
    match operation {
        Operation::AddAddress(address) => endpoint
            .local_address_added(*address)
            .await
            .map_err(|e| never(&e)),
        Operation::DeleteAddress(address) => {
            endpoint.local_address_removed(*address);
            Ok(())
        }
        Operation::SetPrimary(address) => sender
            .set_peer_primary(*address)
            .await
            .map_err(|e| never(&e)),
        Operation::Reset(direction) => reconfigured(
            sender
                .reset_streams(*direction, Vec::<StreamId>::new())
                .await,
        ),
        Operation::ResetAssociation => reconfigured(sender.reset_association().await),
        Operation::AddStreams(outgoing, incoming) => {
            reconfigured(sender.add_streams(*outgoing, *incoming).await)
        }
        Operation::UseKey(id) => sender.activate_key(*id).await.map_err(|e| never(&e)),
    }
}

/// Returns the report of the extensions in the summary.
fn state_of(stats: &AssociationStats, paths: &[PathStats]) -> Value {
    let Extensions {
        partial_reliability,
        authentication,
        dynamic_addresses,
        reconfiguration,
        interleaving,
        ecn,
        ..
    } = stats.extensions;
    let in_force = [
        ("partial", partial_reliability),
        ("authentication", authentication),
        ("addresses", dynamic_addresses),
        ("reconfiguration", reconfiguration),
        ("interleaving", interleaving),
        ("ecn", ecn),
    ];
    let names: Vec<&str> = in_force.iter().filter(|e| e.1).map(|e| e.0).collect();
    let abandoned = stats.abandoned.total();
    let counters = &stats.counters;
    json!({
        "extensions": names,
        "abandoned": abandoned.unsent + abandoned.sent,
        "forward_tsns_sent": counters.forward_tsns_sent,
        "forward_tsns_received": counters.forward_tsns_received,
        "marks_received": counters.congestion_marks_received,
        "mark_reductions": counters.congestion_mark_reductions,
        "forged_packets": stats.authentication.forged_packets,
        "unknown_keys": stats.authentication.unknown_keys,
        "unauthenticated_chunks": stats.authentication.unauthenticated_chunks,
        "mtus": paths.iter().map(|p| p.mtu).collect::<Vec<_>>(),
        "probes_answered": paths.iter().map(|p| p.mtu_probes_answered).sum::<u64>(),
    })
}

/// Returns the report of the association's current state; `None` when it has ended.
pub(crate) async fn extension_state(sender: &SendHalf) -> Option<Value> {
    let (stats, paths) = (sender.stats().await.ok()?, sender.paths().await.ok()?);
    Some(state_of(&stats, &paths))
}
