//! Tests of internal state.

use super::*;
use crate::message::Capabilities;

/// RFC 4540, section 4.2.5
#[test]
fn pending_transaction_ids_are_not_reused() {
    let mut agent = Agent::new(AgentSettings::default(), [1; 32]);
    agent.last_transaction = TransactionId(u32::MAX - 2);
    agent.connected(Time::ZERO, 1);
    let established = Reply::Established(Capabilities {
        internal_v4: true,
        external_v4: true,
        ..Capabilities::default()
    });
    let establish = TransactionId(u32::MAX - 1);
    agent.handle_message(Time::ZERO, 0, &established.to_bytes(establish));
    let waits = agent.submit(Time::ZERO, &Request::List).unwrap();
    assert_eq!(waits, TransactionId(u32::MAX));
    agent.handle_timeout(Time::from_millis(60_000));
    let now = Time::from_millis(60_000);
    assert_eq!(agent.submit(now, &Request::List), Ok(TransactionId(0)));
    // Identifiers wrap around.
    agent.last_transaction = TransactionId(u32::MAX - 1);
    let next = agent.submit(now, &Request::List).unwrap();
    assert_eq!(
        next,
        TransactionId(1),
        "neither of a pending nor of a timed-out request"
    );
}
