//! All types of the public interface can be named with this crate alone.

use carrick::{
    AssociationCounters, AssociationStats, AuthenticationCounters, ConfigError, ConnectError,
    LowerLayer, Message, Mid, SendError, SendFailure, UnsentMessage,
};

use crate::support::{config, on, pair, quick, soon};

struct Counted {
    all: AssociationCounters,
    authentication: AuthenticationCounters,
}

impl From<AssociationStats> for Counted {
    fn from(stats: AssociationStats) -> Self {
        Self {
            all: stats.counters,
            authentication: stats.authentication,
        }
    }
}

fn number(message: &Message) -> Option<Mid> {
    message.mid
}

fn rest(failure: SendFailure) -> UnsentMessage {
    failure.unsent
}

#[tokio::test]
async fn all_public_types_can_be_named() {
    let (_client, _server, a, mut b) = pair().await;
    a.send("named", on(0)).await.unwrap();
    let message = soon("message", b.recv()).await.unwrap().unwrap();
    assert_eq!(number(&message), None, "DATA has no MID");
    let counted = Counted::from(b.control().stats().await.unwrap());
    assert_eq!(counted.all.messages_delivered, 1);
    assert_eq!(counted.authentication, AuthenticationCounters::default());
    let refused: Result<(), SendError> = a.send("", on(0)).await;
    assert_eq!(refused, Err(SendError::Empty));
    assert_eq!(quick().security.lower_layer, LowerLayer::default());
    let wrong = config(&["127.0.0.1"]).port(0).association({
        let mut wrong = quick();
        wrong.mtu.path_mtu = 1;
        wrong
    });
    let why: ConfigError = match carrick::Endpoint::bind(wrong).err() {
        Some(carrick::BindError::Config(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(why.to_string().contains("path_mtu"), "{why}");
    let refusal = ConnectError::NoAddress;
    assert!(!refusal.to_string().is_empty());
    let unsent = UnsentMessage(vec!["rest".into()]);
    let failure = SendFailure {
        context: 0,
        stream: carrick::StreamId(0),
        ppid: carrick::Ppid(0),
        sent: false,
        unsent: unsent.clone(),
        delivered: Vec::new(),
        expired: false,
        abandoned: None,
    };
    assert_eq!(rest(failure), unsent);
}
