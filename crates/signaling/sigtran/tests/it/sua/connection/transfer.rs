//! Data, windows, expedited data and resets.

use super::*;

/// RFC 3868, section 3.3.1: DT1 with the more data indication
#[test]
fn class_2_segments_and_reassembles() {
    let mut subject = Subject::active(Class2);
    subject.send(b"0123456789abcdef!");
    subject.send(b"");
    let sent = [
        data(Some((0, true, 0)), b"01234567", PEER),
        data(Some((0, true, 0)), b"89abcdef", PEER),
        data(Some((0, false, 0)), b"!", PEER),
        data(Some((0, false, 0)), b"", PEER),
    ];
    assert_eq!(subject.sent(), sent);
    subject.receive(&data(Some((0, true, 0)), b"one ", LOCAL));
    subject.receive(&data(Some((0, true, 0)), b"", LOCAL));
    assert_eq!(subject.indications(), []);
    subject.receive(&data(Some((0, false, 0)), b"message", LOCAL));
    let message = Indication::Data(Bytes::from_static(b"one message"));
    assert_eq!(subject.indications(), [message]);
    assert_eq!(subject.sent(), []);
}

/// RFC 3868, section 3.3.1: bounded reassembly
#[test]
fn endless_messages_release_the_connection() {
    let mut subject = Subject::active(Class2);
    for _ in 0..10 {
        subject.receive(&data(Some((0, true, 0)), &[7; 10], LOCAL));
    }
    assert_eq!(subject.state(), ConnectionState::Active);
    subject.receive(&data(Some((0, true, 0)), &[7], LOCAL));
    let cause = ReleaseCause::REMOTE_PROCEDURE_ERROR;
    assert_eq!(subject.sent(), [release(cause, TO_PEER)]);
    assert_eq!(
        subject.indications(),
        [disconnected(DisconnectReason::Released(cause))]
    );
}

/// RFC 3868, sections 3.3.1 and 3.3.2: DT2 and AK with the window of the COAK
#[test]
fn class_3_sends_within_the_window() {
    let mut subject = Subject::active(Class3);
    for octet in 0..5 {
        subject.send(&[octet]);
    }
    let dt2 = |received, sent| data(Some((received, false, sent)), &[sent], PEER);
    assert_eq!(subject.sent(), [dt2(0, 0), dt2(0, 1)]);
    subject.receive(&data_acknowledge(Some((1, 2)), LOCAL));
    assert_eq!(subject.sent(), [dt2(0, 2)]);
    // A smaller window, then a larger one.
    subject.receive(&data_acknowledge(Some((2, 0)), LOCAL));
    subject.receive(&data_acknowledge(Some((3, 0)), LOCAL));
    assert_eq!(subject.sent(), []);
    subject.receive(&data_acknowledge(Some((3, 3)), LOCAL));
    assert_eq!(subject.sent(), [dt2(0, 3), dt2(0, 4)]);
}

/// RFC 3868, section 3.10.7: P(R) of data acknowledges
#[test]
fn class_3_acknowledges_with_data() {
    let mut subject = Subject::active(Class3);
    subject.receive(&data(Some((0, false, 0)), b"a", LOCAL));
    assert_eq!(subject.sent(), [data_acknowledge(Some((1, 3)), PEER)]);
    for _ in 0..3 {
        subject.send(b"x");
    }
    assert_eq!(subject.sent().len(), 2);
    // The data that the P(R) admits acknowledge in their turn.
    subject.receive(&data(Some((1, false, 1)), b"b", LOCAL));
    assert_eq!(
        subject.sent(),
        [
            data(Some((1, false, 2)), b"x", PEER),
            data_acknowledge(Some((2, 3)), PEER)
        ]
    );
    assert_eq!(subject.indications().len(), 2);
}

/// RFC 3868, section 3.10.10: the window closes while the user takes nothing
#[test]
fn paused_users_close_the_window() {
    let mut subject = Subject::active(Class3);
    subject.connection.pause().expect("class 3");
    for sent in 0..3 {
        subject.receive(&data(Some((0, sent == 1, sent)), &[sent], LOCAL));
    }
    subject.send(b"x");
    assert_eq!(subject.sent(), [data(Some((0, false, 0)), b"x", PEER)]);
    assert_eq!(subject.indications(), []);
    subject.connection.resume(subject.now);
    assert_eq!(subject.sent(), [data_acknowledge(Some((3, 3)), PEER)]);
    let messages =
        [&[0][..], &[1, 2]].map(|octets| Indication::Data(Bytes::copy_from_slice(octets)));
    assert_eq!(subject.indications(), messages);
    // Beyond the window.
    subject.connection.pause().expect("class 3");
    for sent in 3..7 {
        subject.receive(&data(Some((0, false, sent)), &[sent], LOCAL));
    }
    assert_eq!(subject.sent(), [reset(ResetCause::OUT_OF_WINDOW, TO_PEER)]);
}

/// RFC 3868, section 3.3.1: ED; section 3.3.2: EA
#[test]
fn expedited_data_pass_the_window() {
    let mut subject = Subject::active(Class3);
    for octet in 0..3 {
        subject.send(&[octet]);
    }
    assert_eq!(subject.sent().len(), 2);
    let now = subject.now;
    for octets in [&b"first"[..], b"second"] {
        let octets = Bytes::copy_from_slice(octets);
        subject
            .connection
            .send_expedited(now, octets)
            .expect("class 3");
    }
    assert_eq!(subject.sent(), [data(None, b"first", PEER)]);
    subject.receive(&data_acknowledge(None, LOCAL));
    assert_eq!(subject.sent(), [data(None, b"second", PEER)]);
    subject.receive(&data_acknowledge(None, LOCAL));
    assert_eq!(subject.sent(), []);
    subject.receive(&data(None, b"urgent", LOCAL));
    assert_eq!(subject.sent(), [data_acknowledge(None, PEER)]);
    let indication = Indication::ExpeditedData(Bytes::from_static(b"urgent"));
    assert_eq!(subject.indications(), [indication]);
    let long = subject.connection.send_expedited(now, vec![0; 33].into());
    let error = ConnectionRequestError::TooLong {
        length: 33,
        limit: 32,
    };
    assert_eq!(long, Err(error));
    for _ in 0..17 {
        let _ = subject.connection.send_expedited(now, Bytes::new());
    }
    let full = subject.connection.send_expedited(now, Bytes::new());
    assert_eq!(full, Err(ConnectionRequestError::QueueFull));
}

/// RFC 3868, section 3.3.8: procedure errors of class 3
#[test]
fn wrong_sequence_numbers_reset_the_connection() {
    let first = data(Some((0, false, 0)), b"a", LOCAL);
    let ends: [(&[Message], Message, ResetCause); 6] = [
        (
            &[],
            data(Some((0, false, 1)), b"x", LOCAL),
            ResetCause::INCORRECT_FIRST_NUMBER,
        ),
        (
            std::slice::from_ref(&first),
            data(Some((0, false, 3)), b"x", LOCAL),
            ResetCause::INCORRECT_SENT_NUMBER,
        ),
        (
            std::slice::from_ref(&first),
            data(Some((0, false, 0)), b"x", LOCAL),
            ResetCause::OUT_OF_WINDOW,
        ),
        (
            &[],
            data(Some((1, false, 0)), b"x", LOCAL),
            ResetCause::INCORRECT_RECEIVED_NUMBER,
        ),
        (
            &[],
            data_acknowledge(Some((127, 3)), LOCAL),
            ResetCause::INCORRECT_RECEIVED_NUMBER,
        ),
        (
            &[],
            inactivity_test(Class3, 5, 3),
            ResetCause::INCORRECT_RECEIVED_NUMBER,
        ),
    ];
    for (before, wrong, cause) in ends {
        let mut subject = Subject::active(Class3);
        for message in before {
            subject.receive(message);
        }
        subject.sent();
        subject.indications();
        subject.receive(&wrong);
        assert_eq!(subject.sent(), [reset(cause, TO_PEER)], "{wrong:?}");
        assert_eq!(subject.indications(), [Indication::Reset(cause)]);
        assert_eq!(subject.state(), ConnectionState::ResetOutgoing);
        // Data are discarded until the confirmation, and begin with 0 then.
        subject.receive(&first);
        assert_eq!(subject.indications(), []);
        subject.receive(&reset_confirm(TO_LOCAL));
        subject.receive(&first);
        let message = Indication::Data(Bytes::from_static(b"a"));
        assert_eq!(subject.indications(), [Indication::ResetConfirmed, message]);
    }
}

/// RFC 3868, sections 3.3.8 and 3.3.9
#[test]
fn resets_are_answered_by_the_user() {
    let mut subject = Subject::active(Class3);
    for _ in 0..4 {
        subject.send(b"lost");
    }
    subject.sent();
    subject.receive(&reset(ResetCause::END_USER, TO_LOCAL));
    assert_eq!(
        subject.indications(),
        [Indication::Reset(ResetCause::END_USER)]
    );
    assert_eq!(subject.state(), ConnectionState::ResetIncoming);
    let error = subject.connection.send(subject.now, &Bytes::new());
    assert_eq!(
        error,
        Err(ConnectionRequestError::State(
            ConnectionState::ResetIncoming
        ))
    );
    assert_eq!(subject.sent(), []);
    subject
        .connection
        .reset_response(subject.now)
        .expect("a reset");
    subject.send(b"new");
    let sent = [
        reset_confirm(TO_PEER),
        data(Some((0, false, 0)), b"new", PEER),
    ];
    assert_eq!(subject.sent(), sent);
    assert!(subject.connection.reset_response(subject.now).is_err());
}

/// RFC 3868, section 3.3.8: both ends reset the connection
#[test]
fn simultaneous_resets_confirm_each_other() {
    let mut subject = Subject::active(Class3);
    subject
        .connection
        .reset(subject.now, ResetCause::SCCP_USER)
        .expect("class 3");
    assert_eq!(subject.sent(), [reset(ResetCause::SCCP_USER, TO_PEER)]);
    subject.receive(&reset(ResetCause::END_USER, TO_LOCAL));
    assert_eq!(subject.indications(), [Indication::ResetConfirmed]);
    assert_eq!(subject.state(), ConnectionState::Active);
    assert_eq!(subject.sent(), []);
}

/// RFC 3868, section 3.3.8: T(reset) of Q.714
#[test]
fn unanswered_resets_release_the_connection() {
    let mut subject = Subject::active(Class3);
    subject
        .connection
        .reset(subject.now, ResetCause::SCCP_USER)
        .expect("class 3");
    subject.sent();
    subject.wait(Duration::from_secs(10));
    let cause = ReleaseCause::RESET_TIMER;
    assert_eq!(subject.sent(), [release(cause, TO_PEER)]);
    assert_eq!(
        subject.indications(),
        [disconnected(DisconnectReason::Released(cause))]
    );
}

/// RFC 3868, section 3.3.10: messages of the other class
#[test]
fn class_3_messages_in_class_2_are_errors() {
    let messages = [
        data(None, b"expedited", LOCAL),
        data_acknowledge(Some((0, 3)), LOCAL),
        reset(ResetCause::END_USER, TO_LOCAL),
    ];
    for message in messages {
        let mut subject = Subject::active(Class2);
        subject.receive(&message);
        assert_eq!(
            subject.sent(),
            [error(ErrorCause::SERVICE_CLASS_MISMATCH, PEER)]
        );
        assert_eq!(subject.state(), ConnectionState::Active);
    }
    let mut subject = Subject::active(Class2);
    let class = Err(ConnectionRequestError::Class(Class2));
    let now = subject.now;
    assert_eq!(subject.connection.send_expedited(now, Bytes::new()), class);
    assert_eq!(subject.connection.reset(now, ResetCause::END_USER), class);
}
