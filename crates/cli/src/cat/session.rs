//! One association: its input is sent, and what it receives is written.

use std::pin::pin;

use carrick::{Association, Events, Notification, RecvHalf, Reliability, SendError, SendHalf};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::arguments::Arguments;
use super::input::{self, InputMessage, Messages};
use super::output::{MessageQueue, MessageWriter, Received};
use crate::endpoint::{self, AbortOnDrop};
use crate::event_reports;
use crate::failure::Failure;
use crate::security::{self, Security};

/// Association with the options of the command.
pub(super) struct Session {
    pub(super) arguments: Arguments,
    pub(super) sender: SendHalf,
    receiver: RecvHalf,
    log: SessionLog,
    /// Reports events until the association ends.
    observer: JoinHandle<()>,
}

/// Lines about an association on standard error.
#[derive(Clone, Copy, Debug)]
pub(super) struct SessionLog {
    verbose: bool,
    json: bool,
    /// Number of the association where there are several.
    association: Option<u64>,
}

impl SessionLog {
    /// Returns the log of an endpoint, whose lines are about no association.
    pub(super) fn of_endpoint(arguments: &Arguments) -> Self {
        Self {
            verbose: arguments.verbose,
            json: arguments.json,
            association: None,
        }
    }

    /// Prints a line if --verbose is given: a JSON object with --json.
    fn detail(self, what: &impl Serialize, text: &str) {
        if self.verbose {
            self.print(what, text);
        }
    }

    /// Prints an error.
    pub(super) fn error(self, text: &str) {
        self.print(&json!({ "kind": "error", "text": text }), text);
    }

    fn print(self, what: &impl Serialize, text: &str) {
        let object = serde_json::to_value(what).ok().filter(|_| self.json);
        match (object, self.association) {
            (Some(Value::Object(mut object)), Some(number)) => {
                object.insert("association".into(), number.into());
                eprintln!("{}", Value::Object(object));
            }
            (Some(object), _) => eprintln!("{object}"),
            (None, Some(number)) => eprintln!("carrick: association {number}: {text}"),
            (None, None) => eprintln!("carrick: {text}"),
        }
    }
}

impl Session {
    /// Checks an association, and begins to report its events. `number`: that of the association where there are several.
    ///
    /// # Errors
    /// The association does not have what the options require.
    pub(super) fn begin(
        arguments: &Arguments,
        security: &Security,
        mut association: Association,
        number: Option<u64>,
    ) -> Result<Self, Failure> {
        let log = SessionLog {
            association: number,
            ..SessionLog::of_endpoint(arguments)
        };
        let control = association.control();
        let peers = endpoint::list(control.peer_addresses());
        let text = format!("connected with {peers} port {}", control.peer_port());
        log.detail(&json!({ "kind": "connected", "text": text }), &text);
        if let Some(text) = security::peer_identity(control) {
            log.detail(&json!({ "kind": "certificate", "text": text }), &text);
        }
        let checked = security.check(control).and_then(|()| {
            let streams = control.outbound_streams();
            arguments.message().check_stream(streams)
        });
        if let Err(failure) = checked {
            association.abort(b"the association lacks what this side requires");
            return Err(failure);
        }
        if arguments.options().reliability != Reliability::Full
            && !control.extensions().partial_reliability
        {
            log.error("the peer does not offer partial reliability: messages that were sent are not abandoned");
        }
        let events = association.take_events();
        let (sender, receiver) = association.split();
        let observer = tokio::spawn(observe(log, events, sender.clone()));
        Ok(Self {
            arguments: arguments.clone(),
            sender,
            receiver,
            log,
            observer,
        })
    }

    pub(super) fn log(&self) -> SessionLog {
        self.log
    }

    /// Moves messages between the association and the standard streams until either side ends it.
    pub(super) async fn talk_on_standard_streams(self) -> Result<(), Failure> {
        let output = MessageWriter::start(self.arguments.output_format())?;
        let input = if self.arguments.recv_only {
            None
        } else {
            let options = self.arguments.options();
            Some(input::start(self.arguments.input_format(), options)?)
        };
        self.talk(input, output).await
    }

    /// Moves messages until either side ends the association.
    pub(super) async fn talk(
        mut self,
        input: Option<Messages>,
        output: MessageWriter,
    ) -> Result<(), Failure> {
        let abort = AbortOnDrop::new(self.sender.clone(), "the program was ended");
        let queue = output.queue();
        let control = self.sender.clone();
        let moved = tokio::select! {
            moved = self.move_all(input, &queue) => moved,
            failure = Security::different_keys(control.control()) => {
                control.abort(security::DIFFERENT_KEYS.as_bytes());
                Err(failure)
            }
        };
        match moved {
            Ok(()) => abort.disarm(),
            Err(_) => drop(abort),
        }
        drop(queue);
        let written = output.finish().await;
        if !matches!(moved, Err(Failure::OutputClosed)) {
            moved.map_err(|failure| endpoint::with_undelivered(failure, &self.sender))?;
        }
        // A failure of the output is the cause, and is reported instead.
        written?;
        // The task ends with the association and does not panic.
        let _ = self.observer.await;
        Ok(())
    }

    async fn move_all(
        &mut self,
        input: Option<Messages>,
        output: &MessageQueue,
    ) -> Result<(), Failure> {
        let association = self.log.association;
        let mut receiving = pin!(receive_all(&mut self.receiver, output, association));
        let sent = tokio::select! {
            // A message that was not sent is reported, also if the association has ended at the same time.
            biased;
            sent = send_all(&self.arguments, &self.sender, input) => sent?,
            ended = &mut receiving => return ended,
        };
        receiving.await?;
        match sent {
            SendExtent::All => Ok(()),
            SendExtent::Refused(error) => {
                Err(Failure::Run(format!("not all input was sent: {error}")))
            }
            SendExtent::Invalid(failure) => Err(failure),
        }
    }

    /// Writes received messages until the association ends.
    pub(super) async fn receive(mut self, output: &MessageQueue) -> Result<(), Failure> {
        let control = self.sender.clone();
        tokio::select! {
            done = receive_all(&mut self.receiver, output, self.log.association) => done?,
            failure = Security::different_keys(control.control()) => {
                control.abort(security::DIFFERENT_KEYS.as_bytes());
                return Err(failure);
            }
        }
        // The task ends with the association and does not panic.
        let _ = self.observer.await;
        Ok(())
    }
}

/// Extent to which the input was sent.
enum SendExtent {
    All,
    /// The association accepts no more messages, because it ends; `receive_all` returns the reason.
    Refused(SendError),
    /// The input has an error; what preceded it was sent.
    Invalid(Failure),
}

/// Sends the input, as far as it is valid, then shuts the association down, which also ends the receiving.
async fn send_all(
    arguments: &Arguments,
    sender: &SendHalf,
    input: Option<Messages>,
) -> Result<SendExtent, Failure> {
    let Some(mut input) = input else {
        return std::future::pending().await;
    };
    let mut extent = SendExtent::All;
    while let Some(message) = input.recv().await {
        let sent = match message {
            Ok(message) => send(sender, message).await,
            Err(failure) => Err(failure),
        };
        match sent {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Ok(SendExtent::Refused(error)),
            Err(failure) => {
                extent = SendExtent::Invalid(failure);
                break;
            }
        }
    }
    if let (SendExtent::All, Some(time)) = (&extent, arguments.quit_after) {
        tokio::time::sleep(time).await;
    }
    let done = sender.shutdown().await;
    done.map_err(|e| Failure::Run(e.to_string()))?;
    Ok(extent)
}

/// Sends a message of the input. The inner error is that of an association that takes no more messages.
///
/// # Errors
/// The message is for another stream than the association has.
pub(super) async fn send(
    sender: &SendHalf,
    message: InputMessage,
) -> Result<Result<(), SendError>, Failure> {
    match sender.send(message.data.clone(), message.options).await {
        Err(error @ SendError::InvalidStream { .. }) => {
            let stream = message.options.stream.0;
            let wanted = u32::from(stream) + 1;
            Err(message.fault(format_args!(
                "stream {stream}: {error}; --streams {wanted} asks for more"
            )))
        }
        Err(error @ SendError::Empty) => Err(message.fault(error)),
        sent => Ok(sent),
    }
}

async fn receive_all(
    receiver: &mut RecvHalf,
    output: &MessageQueue,
    association: Option<u64>,
) -> Result<(), Failure> {
    loop {
        match receiver.recv().await {
            Ok(Some(message)) => {
                let received = Received {
                    message,
                    association,
                };
                output.write(received).await?;
            }
            Ok(None) => return Ok(()),
            Err(e) => return Err(Failure::Run(e.to_string())),
        }
    }
}

/// Reports events of the association until it ends, and the number of messages that were abandoned.
async fn observe(log: SessionLog, events: Option<Events>, sender: SendHalf) {
    let Some(mut events) = events else { return };
    let mut abandoned: u64 = 0;
    while let Some(notification) = events.next().await {
        let Notification::Event(event) = notification else {
            continue;
        };
        if let carrick::Event::SendFailed(failure) = &event
            && (failure.expired || failure.abandoned.is_some())
        {
            abandoned += 1;
        }
        if log.verbose
            && let Some(report) = event_reports::report(&event, &sender).await
        {
            log.detail(&report, &report.text);
        }
    }
    if abandoned > 0 {
        let text = format!(
            "{abandoned} messages were abandoned by their lifetime, limit of retransmissions or priority"
        );
        log.print(
            &json!({ "kind": "abandoned", "messages": abandoned, "text": text }),
            &text,
        );
    }
}
