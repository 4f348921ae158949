//! Operations of extensions during the transfer, and their report.

use std::collections::VecDeque;
use std::time::Duration;

use carrick::{
    AssociationStats, Endpoint, Extensions, OperationError, PathStats, ReconfigError, SendHalf,
    SharedKeyId, StreamDirection, StreamId,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::extension_options::{Operation, PlannedOperation};
use crate::output::emit;

/// Pause before an operation is repeated that was not possible.
const RETRY: Duration = Duration::from_millis(20);

/// Operations that are not complete.
pub(crate) struct PendingOperations {
    waiting: VecDeque<PlannedOperation>,
    retry_at: Option<Instant>,
}

impl PendingOperations {
    pub(crate) fn new(operations: &[PlannedOperation]) -> Self {
        Self {
            waiting: operations.to_vec().into(),
            retry_at: None,
        }
    }

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
            .control()
            .set_peer_primary(*address)
            .await
            .map_err(|e| never(&e)),
        Operation::ResetOutgoing(count) => {
            let streams: Vec<StreamId> = (0..count.unwrap_or(0)).map(StreamId).collect();
            let asked = sender
                .control()
                .reset_streams(StreamDirection::Outgoing, streams);
            reconfigured(asked.await)
        }
        Operation::ResetIncoming => {
            let asked = sender
                .control()
                .reset_streams(StreamDirection::Incoming, []);
            reconfigured(asked.await)
        }
        Operation::ResetAssociation => reconfigured(sender.control().reset_association().await),
        Operation::AddStreams(outgoing, incoming) => {
            reconfigured(sender.control().add_streams(*outgoing, *incoming).await)
        }
        Operation::UseKey(id) => sender
            .control()
            .activate_key(SharedKeyId(*id))
            .await
            .map_err(|e| never(&e)),
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
        zero_checksum,
        ..
    } = stats.extensions;
    let in_force = [
        ("partial", partial_reliability),
        ("authentication", authentication),
        ("addresses", dynamic_addresses),
        ("reconfiguration", reconfiguration),
        ("interleaving", interleaving),
        ("ecn", ecn),
        ("zero-checksum", zero_checksum),
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
    let (stats, paths) = (
        sender.control().stats().await.ok()?,
        sender.control().paths().await.ok()?,
    );
    Some(state_of(&stats, &paths))
}
