//! A server that restarts itself while a client sends it numbered messages: each process of the server hands its endpoint to
//! the next one, and no message is lost or received twice.
//!
//! ```text
//! cargo run --example restart
//! ```
//!
//! Of a program that is upgraded, the next process is its new version. What it has to know of each association is in the
//! user data of the association.

use std::error::Error;

#[cfg(target_os = "linux")]
#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1).as_deref() {
        None => linux::client().await,
        Some("server") => linux::first_server().await,
        Some("successor") => linux::successor().await,
        Some(other) => Err(format!("unknown argument {other}: leave it out").into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn main() -> Result<(), Box<dyn Error>> {
    Err("handovers are for Linux".into())
}

#[cfg(target_os = "linux")]
mod linux {
    use std::error::Error;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::IpAddr;
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::net::UnixStream;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use carrick::{Association, Config, ConnectOptions, Endpoint, Handover, SendOptions};

    type Result<T> = std::result::Result<T, Box<dyn Error>>;

    /// Addresses of both, so that the association has two paths.
    const ADDRESSES: [[u8; 4]; 2] = [[127, 0, 0, 1], [127, 0, 0, 2]];

    /// Messages of the client.
    const MESSAGES: u64 = 5000;

    /// Messages that a process of the server receives before it restarts.
    const EACH: u64 = 1000;

    /// Time for the successor to start.
    const PATIENCE: Duration = Duration::from_secs(20);

    fn config() -> Config {
        Config::udp(ADDRESSES.map(IpAddr::from)).encapsulation_port(0)
    }

    /// Messages of the association so far: its user data.
    #[derive(Default)]
    struct Received {
        messages: u64,
        sum: u64,
    }

    impl Received {
        fn from_user_data(data: &[u8]) -> Result<Self> {
            let text = std::str::from_utf8(data)?;
            let (messages, sum) = text.split_once(' ').ok_or("user data of another program")?;
            Ok(Self {
                messages: messages.parse()?,
                sum: sum.parse()?,
            })
        }

        fn to_user_data(&self) -> String {
            format!("{} {}", self.messages, self.sum)
        }
    }

    /// Sends the messages, and compares what the server has received.
    pub(super) async fn client() -> Result<()> {
        let mut server = Command::new(std::env::current_exe()?);
        let server = server.arg("server").stdout(Stdio::piped());
        let mut server = server.spawn()?;
        let mut lines = BufReader::new(server.stdout.take().ok_or("no output")?).lines();
        let ports = lines.next().ok_or("the server has not started")??;
        let (port, udp_port) = ports.split_once(' ').ok_or("no ports")?;
        let (port, udp_port) = (port.parse::<u16>()?, udp_port.parse()?);

        let endpoint = Endpoint::bind(config())?;
        let options = ConnectOptions::new().encapsulation_port(udp_port);
        let addresses = ADDRESSES.map(IpAddr::from);
        let association = endpoint.connect_with((&addresses, port), options).await?;
        for number in 0..MESSAGES {
            let message = number.to_be_bytes().to_vec();
            association.send(message, SendOptions::on_stream(0)).await?;
        }
        association.shutdown().await?;
        let sent = format!("{MESSAGES} messages, sum {}", (0..MESSAGES).sum::<u64>());
        println!("client: sent {sent}");

        // The output ends with the last process of the server.
        let mut received = String::new();
        for line in lines {
            received = line?;
            println!("{received}");
        }
        server.wait()?;
        let is_equal = received.ends_with(&sent);
        is_equal
            .then_some(())
            .ok_or_else(|| "the server has received something else".into())
    }

    /// The first process of the server.
    pub(super) async fn first_server() -> Result<()> {
        let endpoint = Endpoint::bind(config())?;
        let udp_port = endpoint.encapsulation_port().ok_or("not in UDP")?;
        println!("{} {udp_port}", endpoint.port());
        let incoming = endpoint.accept().await.ok_or("closed")?;
        receive(endpoint, incoming.accept(), Received::default()).await
    }

    /// The other processes, with a socket to their predecessor as standard input.
    pub(super) async fn successor() -> Result<()> {
        let mut predecessor = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
        let handover = Handover::receive(&predecessor)?;
        let (endpoint, associations) = Endpoint::resume(config(), &handover)?;
        drop(handover);
        // From now on this process serves.
        predecessor.write_all(b"!")?;
        let [association] = <[Association; 1]>::try_from(associations)
            .map_err(|a| format!("{} associations", a.len()))?;
        let received = Received::from_user_data(&association.control().user_data())?;
        receive(endpoint, association, received).await
    }

    /// Receives messages, and restarts the server after some.
    async fn receive(
        mut endpoint: Endpoint,
        mut association: Association,
        mut received: Received,
    ) -> Result<()> {
        let process = std::process::id();
        while let Some(message) = association.recv().await? {
            let number: [u8; 8] = message.payload.into_bytes()[..].try_into()?;
            received.messages += 1;
            received.sum += u64::from_be_bytes(number);
            if received.messages.is_multiple_of(EACH) && received.messages < MESSAGES {
                println!(
                    "process {process}: {} messages, restarting",
                    received.messages
                );
                let data = received.to_user_data();
                association.control().set_user_data(data);
                match restart(&endpoint).await? {
                    None => return Ok(()),
                    // The successor has not started: this process continues.
                    Some((resumed, [own])) => (endpoint, association) = (resumed, own),
                }
            }
        }
        let Received { messages, sum } = received;
        println!("process {process}: received {messages} messages, sum {sum}");
        let report = endpoint.close().await;
        report
            .is_empty()
            .then_some(())
            .ok_or_else(|| report.to_string().into())
    }

    /// Starts the next process with the endpoint. Returns it if the process has not resumed it.
    async fn restart(endpoint: &Endpoint) -> Result<Option<(Endpoint, [Association; 1])>> {
        let handover = endpoint.hand_over().await?;
        let mut successor: Option<Child> = None;
        let mut pass = || -> Result<()> {
            let (mut ours, theirs) = UnixStream::pair()?;
            ours.set_read_timeout(Some(PATIENCE))?;
            ours.set_write_timeout(Some(PATIENCE))?;
            let mut next = Command::new(std::env::current_exe()?);
            next.arg("successor").stdin(OwnedFd::from(theirs));
            successor = Some(next.spawn()?);
            // It has the other end, too: without it, this end is notified when the successor ends.
            drop(next);
            handover.send(&ours)?;
            Ok(ours.read_exact(&mut [0])?)
        };
        let Err(error) = pass() else {
            return Ok(None);
        };
        eprintln!("the successor has not resumed the endpoint: {error}");
        // One process at most may continue the associations.
        if let Some(mut successor) = successor {
            successor.kill()?;
            successor.wait()?;
        }
        let (endpoint, associations) = Endpoint::resume(config(), &handover)?;
        let associations = associations.try_into().map_err(|_| "not one association")?;
        Ok(Some((endpoint, associations)))
    }
}
