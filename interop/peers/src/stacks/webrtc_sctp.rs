//! Crate `webrtc-sctp`: the tasks of its association run on a runtime of this module, its packets pass through queues.

use std::any::Any;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::runtime::Runtime;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{
    Receiver, Sender, UnboundedReceiver, UnboundedSender, channel, unbounded_channel,
};
use tokio::time::sleep;
use webrtc_sctp::association::{self, Association};
use webrtc_sctp::chunk::chunk_payload_data::PayloadProtocolIdentifier;
use webrtc_sctp::stream::{ReliabilityType, Stream};
use webrtc_util::Conn;

use crate::BUFFER;
use crate::driver::{Config, Stack};
use crate::extension_options::{AbandonRule, ExtensionName};
use crate::interop::{InteropStack, MAX_TEST_MESSAGE, StackEvent};
use crate::messages::UserMessage;
use crate::options::{EndAction, Options};
use crate::stacks::{ONLY_BINARY, WEBRTC_PORT, packet_size};

const BINARY: PayloadProtocolIdentifier = PayloadProtocolIdentifier::Binary;
/// Interval at which the queues are looked at.
const INTERVAL: Duration = Duration::from_millis(1);
/// Chunk types of the packets that end an association (RFC 9260, sections 3.3.7 and 3.3.13), and their position.
const ENDS: [u8; 2] = [6, 14];
const FIRST_CHUNK: usize = 12;
/// Time that the readers of streams have after the end of the association.
const READERS_END: Duration = Duration::from_millis(100);
/// Maximum number of messages that wait for room in the stack.
const WAITING: usize = 16;
/// Streams that INIT requests; the crate has no setting.
const STREAMS: u16 = u16::MAX;

/// Connection whose packets pass through queues.
struct QueueConn {
    inbound: Mutex<UnboundedReceiver<Bytes>>,
    outbound: UnboundedSender<Bytes>,
    local: SocketAddr,
    remote: SocketAddr,
}

fn closed() -> webrtc_util::Error {
    webrtc_util::Error::ErrBufferClosed
}

#[async_trait]
impl Conn for QueueConn {
    async fn connect(&self, _: SocketAddr) -> Result<(), webrtc_util::Error> {
        Ok(())
    }

    async fn recv(&self, into: &mut [u8]) -> Result<usize, webrtc_util::Error> {
        let packet = self.inbound.lock().await.recv().await.ok_or_else(closed)?;
        let length = packet.len().min(into.len());
        into[..length].copy_from_slice(&packet[..length]);
        Ok(length)
    }

    async fn recv_from(&self, into: &mut [u8]) -> Result<(usize, SocketAddr), webrtc_util::Error> {
        Ok((self.recv(into).await?, self.remote))
    }

    async fn send(&self, packet: &[u8]) -> Result<usize, webrtc_util::Error> {
        let sent = self.outbound.send(Bytes::copy_from_slice(packet));
        sent.map_err(|_| closed())?;
        Ok(packet.len())
    }

    async fn send_to(&self, packet: &[u8], _: SocketAddr) -> Result<usize, webrtc_util::Error> {
        self.send(packet).await
    }

    fn local_addr(&self) -> Result<SocketAddr, webrtc_util::Error> {
        Ok(self.local)
    }

    fn remote_addr(&self) -> Option<SocketAddr> {
        Some(self.remote)
    }

    async fn close(&self) -> Result<(), webrtc_util::Error> {
        Ok(())
    }

    fn as_any(&self) -> &(dyn Any + Send + Sync) {
        self
    }
}

/// Command to the tasks, which carry them out in order; writing waits for room in the stack.
enum Command {
    Send {
        stream: u16,
        data: Bytes,
        unordered: bool,
        rule: AbandonRule,
    },
    /// Reset all streams, and open those below this number again.
    Reset(u16),
    Shutdown,
}

type Streams = Arc<std::sync::Mutex<BTreeMap<u16, Arc<Stream>>>>;

/// Association for the tasks.
#[derive(Clone)]
struct Worker {
    association: Arc<Association>,
    streams: Streams,
    reporter: UnboundedSender<StackEvent>,
}

pub(crate) struct WebrtcSctp {
    runtime: Runtime,
    to_stack: UnboundedSender<Bytes>,
    from_stack: UnboundedReceiver<Bytes>,
    commands: Sender<Command>,
    reports: UnboundedReceiver<StackEvent>,
    is_connected: bool,
    is_resetting: bool,
    /// The peer has confirmed the reset, and the streams are open again.
    was_reset: bool,
    /// When a packet passed that ends the association, which the stack reports to its streams only.
    ended_at: Option<Instant>,
    end_reported: bool,
}

impl Worker {
    fn streams(&self) -> std::sync::MutexGuard<'_, BTreeMap<u16, Arc<Stream>>> {
        self.streams.lock().expect("no task panics with it")
    }

    /// The program has ended if there is no receiver.
    fn report(&self, event: StackEvent) {
        let _ = self.reporter.send(event);
    }

    fn add(&self, stream: &Arc<Stream>) {
        self.streams()
            .insert(stream.stream_identifier(), Arc::clone(stream));
        tokio::spawn(self.clone().read(Arc::clone(stream)));
    }

    /// Reports the messages of a stream until it ends.
    async fn read(self, stream: Arc<Stream>) {
        let id = stream.stream_identifier();
        let mut buffer = vec![0; MAX_TEST_MESSAGE];
        while let Ok((length, ppid)) = stream.read_sctp(&mut buffer).await {
            if length == 0 {
                let is_current = |known: &Arc<Stream>| Arc::ptr_eq(known, &stream);
                if self.streams().get(&id).is_some_and(is_current) {
                    self.streams().remove(&id);
                }
                return self.report(StackEvent::StreamsReset {
                    direction: "incoming",
                    success: true,
                });
            }
            self.report(StackEvent::Received {
                stream: id,
                ppid: ppid as u32,
                data: Bytes::copy_from_slice(&buffer[..length]),
            });
        }
    }

    /// Returns the stream, after it was opened if necessary.
    async fn stream(&self, id: u16) -> Result<Arc<Stream>, webrtc_sctp::Error> {
        let known = self.streams().get(&id).cloned();
        match known {
            Some(stream) => Ok(stream),
            None => {
                let stream = self.association.open_stream(id, BINARY).await?;
                self.add(&stream);
                Ok(stream)
            }
        }
    }

    async fn carry_out(&self, command: Command) -> Result<(), webrtc_sctp::Error> {
        match command {
            Command::Send {
                stream,
                data,
                unordered,
                rule,
            } => {
                let stream = self.stream(stream).await?;
                let (kind, value) = match rule {
                    AbandonRule::Never => (ReliabilityType::Reliable, 0),
                    AbandonRule::Timed(lifetime) => {
                        (ReliabilityType::Timed, lifetime.as_millis() as u32)
                    }
                    AbandonRule::Retransmissions(count) => (ReliabilityType::Rexmit, count),
                };
                stream.set_reliability_params(unordered, kind, value);
                stream.write_sctp(&data, BINARY).await?;
            }
            Command::Reset(count) => self.reset(count).await?,
            Command::Shutdown => self.association.shutdown().await?,
        }
        Ok(())
    }

    /// Resets all streams when their data is acknowledged. The stack allows new streams with their identifiers when the
    /// other direction was reset, too.
    async fn reset(&self, count: u16) -> Result<(), webrtc_sctp::Error> {
        let streams: Vec<_> = self.streams().values().cloned().collect();
        while streams.iter().any(|stream| stream.buffered_amount() > 0) {
            sleep(INTERVAL).await;
        }
        for stream in &streams {
            stream.shutdown(std::net::Shutdown::Both).await?;
        }
        self.streams().clear();
        for id in 0..count {
            while self.stream(id).await.is_err() {
                sleep(INTERVAL).await;
            }
        }
        self.report(StackEvent::StreamsReset {
            direction: "outgoing",
            success: true,
        });
        Ok(())
    }
}

/// Sets the association up, and carries out commands until its end.
async fn carry(
    config: association::Config,
    is_client: bool,
    mut commands: Receiver<Command>,
    reporter: UnboundedSender<StackEvent>,
) -> Result<(), webrtc_sctp::Error> {
    let association = if is_client {
        Association::client(config).await?
    } else {
        Association::server(config).await?
    };
    let worker = Worker {
        association: Arc::new(association),
        streams: Streams::default(),
        reporter,
    };
    worker.report(StackEvent::Established {
        inbound: STREAMS,
        outbound: STREAMS,
    });
    let sender = worker.clone();
    tokio::spawn(async move {
        while let Some(command) = commands.recv().await {
            if let Err(error) = sender.carry_out(command).await {
                eprintln!("webrtc-sctp: {error}");
            }
        }
    });
    while let Some(stream) = worker.association.accept_stream().await {
        worker.add(&stream);
    }
    Ok(())
}

impl WebrtcSctp {
    fn new(config: &Config, is_client: bool) -> Self {
        let (to_stack, inbound) = unbounded_channel();
        let (outbound, from_stack) = unbounded_channel();
        let (reporter, reports) = unbounded_channel();
        let (commands, to_do) = channel(WAITING);
        let conn = QueueConn {
            inbound: Mutex::new(inbound),
            outbound,
            local: config.local,
            remote: config.remote,
        };
        let settings = association::Config {
            net_conn: Arc::new(conn),
            max_receive_buffer_size: BUFFER as u32,
            max_message_size: MAX_TEST_MESSAGE as u32,
            mtu: config.options.as_ref().map_or(0, packet_size) as u32,
            name: "peer".to_owned(),
            remote_port: WEBRTC_PORT,
            local_port: WEBRTC_PORT,
        };
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build();
        let runtime = runtime.expect("threads and epoll of the host");
        let to_report = reporter.clone();
        runtime.spawn(async move {
            let result = carry(settings, is_client, to_do, to_report.clone()).await;
            let event = match result {
                Ok(()) => StackEvent::ShutDown,
                Err(error) => StackEvent::Lost(error.to_string()),
            };
            let _ = to_report.send(event);
        });
        Self {
            runtime,
            to_stack,
            from_stack,
            commands,
            reports,
            is_connected: false,
            is_resetting: false,
            was_reset: false,
            ended_at: None,
            end_reported: false,
        }
    }
}

impl WebrtcSctp {
    fn watch(&mut self, now: Instant, packet: &[u8]) {
        let chunk = packet.get(FIRST_CHUNK);
        if self.ended_at.is_none() && chunk.is_some_and(|kind| ENDS.contains(kind)) {
            self.ended_at = Some(now);
        }
    }
}

impl Stack for WebrtcSctp {
    fn server(config: &Config) -> Self {
        Self::new(config, false)
    }

    fn client(config: &Config) -> Self {
        Self::new(config, true)
    }

    fn handle(&mut self, now: Instant, packet: Bytes) {
        self.watch(now, &packet);
        // After the end of the association there is no receiver.
        let _ = self.to_stack.send(packet);
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn timeout(&self) -> Option<Instant> {
        Some(Instant::now() + INTERVAL)
    }

    fn transmit(&mut self, now: Instant, packets: &mut Vec<Bytes>) {
        while let Ok(packet) = self.from_stack.try_recv() {
            self.watch(now, &packet);
            packets.push(packet);
        }
    }

    fn is_connected(&self) -> bool {
        self.is_connected
    }

    fn send(&mut self, now: Instant, message: &Bytes) -> bool {
        let message = UserMessage {
            stream: 0,
            ppid: BINARY as u32,
            unordered: false,
            data: message.clone(),
        };
        self.send_message(now, &message, AbandonRule::Never)
            .is_ok_and(|sent| sent)
    }

    fn receive(&mut self, into: &mut Vec<u8>) -> Option<usize> {
        match self.poll_event()? {
            StackEvent::Received { data, .. } => {
                *into = data.into();
                Some(into.len())
            }
            _ => None,
        }
    }

    /// Measurements, which need it, are not made with this stack.
    fn is_acknowledged(&mut self) -> bool {
        self.commands.capacity() == WAITING
    }
}

impl InteropStack for WebrtcSctp {
    const EXTENSIONS: &[ExtensionName] = &[ExtensionName::Partial, ExtensionName::Reconfiguration];

    fn unsupported(options: &Options) -> Option<&'static str> {
        if options.ppid != Some(BINARY as u32) {
            return Some(ONLY_BINARY);
        }
        (options.end == EndAction::Abort).then_some("the stack has no function that sends an ABORT")
    }

    fn poll_event(&mut self) -> Option<StackEvent> {
        let Ok(event) = self.reports.try_recv() else {
            let is_over = self.ended_at.is_some_and(|at| at.elapsed() > READERS_END);
            let is_new = is_over && !std::mem::replace(&mut self.end_reported, is_over);
            return is_new.then_some(StackEvent::ShutDown);
        };
        match event {
            StackEvent::Established { .. } => self.is_connected = true,
            StackEvent::StreamsReset {
                direction: "outgoing",
                ..
            } => {
                self.was_reset = true;
            }
            _ => {}
        }
        Some(event)
    }

    fn send_message(
        &mut self,
        _: Instant,
        message: &UserMessage,
        rule: AbandonRule,
    ) -> Result<bool, String> {
        let command = Command::Send {
            stream: message.stream,
            data: message.data.clone(),
            unordered: message.unordered,
            rule,
        };
        Ok(self.commands.try_send(command).is_ok())
    }

    fn reset_outgoing(&mut self, _: Instant, count: u16) -> Result<bool, String> {
        if !self.is_resetting {
            self.is_resetting = self.commands.try_send(Command::Reset(count)).is_ok();
        }
        Ok(self.was_reset)
    }

    fn shutdown(&mut self, _: Instant) {
        let commands = self.commands.clone();
        self.runtime
            .spawn(async move { commands.send(Command::Shutdown).await });
    }

    /// Does nothing: the stack cannot send an ABORT.
    fn abort(&mut self, _: Instant) {}
}
