//! `--keep-open`: associations one after another and at the same time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use carrick::{Association, Endpoint, Incoming, SendHalf};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::arguments::Arguments;
use super::input::{self, InputMessage, Messages};
use super::output::{MessageQueue, MessageWriter};
use super::process::{self, ProcessCommand, Processes};
use super::session::{self, Session};
use crate::endpoint;
use crate::failure::Failure;
use crate::security::Security;

/// Associations that exist, by number.
#[derive(Clone, Default)]
struct Peers(Arc<PeersState>);

#[derive(Default)]
struct PeersState {
    senders: Mutex<BTreeMap<u64, SendHalf>>,
    /// A sender was added.
    added: Notify,
}

impl Peers {
    fn change<R>(&self, change: impl FnOnce(&mut BTreeMap<u64, SendHalf>) -> R) -> R {
        let senders = self.0.senders.lock();
        change(&mut senders.unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, number: u64, sender: SendHalf) {
        self.change(|senders| senders.insert(number, sender));
        self.0.added.notify_one();
    }

    fn remove(&self, number: u64) {
        self.change(|senders| senders.remove(&number));
    }

    /// Waits until there is an association, and returns those that a message is for.
    async fn of(&self, message: &InputMessage) -> Vec<(u64, SendHalf)> {
        loop {
            let selected = self.change(|senders| {
                let of = |number: &u64| message.association.is_none_or(|only| only == *number);
                let all = senders.iter().filter(|(number, _)| of(number));
                (!senders.is_empty()).then(|| all.map(|(n, s)| (*n, s.clone())).collect())
            });
            match selected {
                Some(selected) => return selected,
                None => self.0.added.notified().await,
            }
        }
    }
}

/// Accepts associations until a signal.
pub(super) async fn serve(
    arguments: &Arguments,
    security: &Security,
    endpoint: Endpoint,
) -> Result<(), Failure> {
    let processes = Processes::default();
    let command = ProcessCommand::of(&arguments.process);
    let output = MessageWriter::start(arguments.output_format())?;
    let work = async {
        let peers = Peers::default();
        let sending = async {
            if command.is_none() && !arguments.recv_only {
                let input = input::start(arguments.input_format(), arguments.options())?;
                broadcast(input, &peers).await?;
            }
            // The end of the input ends no association.
            std::future::pending().await
        };
        let accepting = Acceptor {
            arguments,
            security,
            peers: &peers,
            output: output.queue(),
            command: command.as_ref(),
            processes: &processes,
        };
        tokio::select! {
            done = accepting.accept(&endpoint) => done,
            failed = sending => failed,
        }
    };
    let done = endpoint::until_stopped(endpoint.clone(), work).await;
    processes.finish().await;
    let written = output.finish().await;
    match done {
        // The failure of the output is the cause.
        Err(Failure::OutputClosed) | Ok(()) => written,
        done => done,
    }
}

/// Sends each message to the associations that it is for; one that ends meanwhile does not get it.
async fn broadcast(mut input: Messages, peers: &Peers) -> Result<(), Failure> {
    while let Some(message) = input.recv().await {
        let message = message?;
        let selected = peers.of(&message).await;
        if selected.is_empty() {
            let number = message.association.unwrap_or_default();
            let why = format!("association: there is no association {number}");
            eprintln!("carrick: line {} of the input: {why}", message.line);
        }
        let mut sends = JoinSet::new();
        for (_, sender) in selected {
            let message = message.clone();
            sends.spawn(async move { session::send(&sender, message).await });
        }
        while let Some(sent) = sends.join_next().await {
            // The inner error is that of an association that ends, which its task reports.
            if let Ok(Err(Failure::Run(why))) = sent {
                eprintln!("carrick: {why}");
            }
        }
    }
    Ok(())
}

struct Acceptor<'a> {
    arguments: &'a Arguments,
    security: &'a Security,
    peers: &'a Peers,
    output: MessageQueue,
    command: Option<&'a ProcessCommand>,
    processes: &'a Processes,
}

impl Acceptor<'_> {
    async fn accept(&self, endpoint: &Endpoint) -> Result<(), Failure> {
        let mut sessions: JoinSet<Result<(), Failure>> = JoinSet::new();
        let mut number = 0;
        loop {
            tokio::select! {
                incoming = endpoint.accept() => match incoming {
                    Some(incoming) if sessions.len() < self.arguments.max_associations.into() => {
                        number += 1;
                        self.begin(incoming, number, &mut sessions);
                    }
                    Some(incoming) => incoming.refuse(b"too many associations"),
                    None => return Err(Failure::Run("the endpoint has closed".into())),
                },
                Some(ended) = sessions.join_next() => {
                    if let Ok(Err(Failure::OutputClosed)) = ended {
                        return Err(Failure::OutputClosed);
                    }
                }
            }
        }
    }

    fn begin(&self, incoming: Incoming, number: u64, sessions: &mut JoinSet<Result<(), Failure>>) {
        let association: Association = incoming.accept();
        let session = Session::begin(self.arguments, self.security, association, Some(number));
        let session = match session {
            Ok(session) => session,
            Err(Failure::Run(why)) => {
                eprintln!("carrick: association {number}: {why}");
                return;
            }
            Err(_) => return,
        };
        let log = session.log();
        let (peers, output) = (self.peers.clone(), self.output.clone());
        let process = self.command.cloned().zip(Some(self.processes.clone()));
        if process.is_none() {
            peers.add(number, session.sender.clone());
        }
        sessions.spawn(async move {
            let done = match process {
                Some((command, processes)) => process::talk(&command, session, &processes).await,
                None => session.receive(&output).await,
            };
            peers.remove(number);
            if let Err(Failure::Run(why)) = &done {
                log.error(why);
            }
            done
        });
    }
}
