//! `carrick cat`: sends standard input as messages and writes received messages to standard output, as ncat
//! does.
//!
//! - `arguments`: the command line
//! - `input`: reads a byte stream and cuts it into messages; `json_input`: messages as JSON objects
//! - `output`: writes messages as bytes, in a framing, hexadecimal or JSON
//! - `session`: one association
//! - `several`: associations one after another and at once (--keep-open)
//! - `process`: a process instead of standard input and output (--exec)
//!
//! SCTP has no half-closed association (RFC 9260, section 9): when the input of one side ends, both sides
//! deliver what was sent before, and the association ends.

mod arguments;
mod input;
mod json_input;
mod output;
mod process;
mod session;
mod several;

use std::net::IpAddr;

use carrick::Association;

pub(crate) use arguments::{Arguments, MessageArguments};

use crate::endpoint;
use crate::failure::Failure;
use crate::runtime;
use crate::security::Security;
use arguments::Target;
use process::Processes;
use session::{Session, SessionLog};

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let target = arguments.target()?;
    arguments.check()?;
    runtime::run(async {
        let security = arguments.security.load(&arguments.endpoint.encryption)?;
        match target {
            Target::Listen(port) => listen(arguments, &security, port).await,
            Target::Connect(host, port) => connect(arguments, &security, host, port).await,
        }
    })
}

async fn listen(arguments: &Arguments, security: &Security, port: u16) -> Result<(), Failure> {
    let streams = arguments.message().streams();
    let log = SessionLog::of_endpoint(arguments);
    let report = move |text: &str| log.error(text);
    let endpoint = security.listen(&arguments.endpoint, port, streams, report)?;
    let line = endpoint::listening(&endpoint, port).await?;
    eprintln!("carrick: {line}");
    if arguments.keep_open {
        return several::serve(arguments, security, endpoint).await;
    }
    let closed = || Failure::Run("the endpoint has closed".into());
    let processes = Processes::default();
    let done = endpoint::with(endpoint.clone(), async {
        let association = endpoint.accept().await.ok_or_else(closed)?.accept();
        // Only one association is accepted; later peers get an ABORT.
        let refuse = async {
            while let Some(other) = endpoint.accept().await {
                other.refuse(b"busy");
            }
        };
        tokio::select! {
            done = Box::pin(talk(arguments, security, association, &processes)) => done,
            () = refuse => Err(closed()),
        }
    })
    .await;
    processes.finish().await;
    done
}

async fn connect(
    arguments: &Arguments,
    security: &Security,
    host: &str,
    port: u16,
) -> Result<(), Failure> {
    let peers: Vec<IpAddr> = endpoint::resolve(host).await?;
    let streams = arguments.message().streams();
    let endpoint = security.open_towards(&arguments.endpoint, &peers, streams)?;
    let processes = Processes::default();
    let done = endpoint::with(endpoint.clone(), async {
        let association = arguments.to.connect(&endpoint, &peers, port).await?;
        Box::pin(talk(arguments, security, association, &processes)).await
    })
    .await;
    processes.finish().await;
    done
}

/// Moves messages in both directions until either side ends the association.
async fn talk(
    arguments: &Arguments,
    security: &Security,
    association: Association,
    processes: &Processes,
) -> Result<(), Failure> {
    let session = Session::begin(arguments, security, association, None)?;
    if let Some(command) = process::ProcessCommand::of(&arguments.process) {
        return process::talk(&command, session, processes).await;
    }
    session.talk_on_standard_streams().await
}
