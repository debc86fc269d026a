//! A client of one server, which uses a standard socket and only the codec of this library. The client sends commands
//! in a pipeline, and gets pushes and replies that borrow from the buffer.
//!
//! ```text
//! SHEARLINE_NODES=redis://127.0.0.1:6379 cargo run --no-default-features --example resp_client
//! ```

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use shearline::resp::{Inbox, Value, command};

fn main() -> Result<(), Box<dyn Error>> {
    let nodes = std::env::var("SHEARLINE_NODES").unwrap_or_default();
    let node = nodes.split(',').next().unwrap_or_default().trim();
    let address = node.strip_prefix("redis://").unwrap_or(node);
    if address.is_empty() {
        eprintln!("no server: start one and set SHEARLINE_NODES=redis://127.0.0.1:6379");
        std::process::exit(2);
    }
    let mut client = Client::connect(address)?;
    let key = format!("resp_client:{}", std::process::id());

    // This is a pipeline: the client first sends all commands, and then reads one reply for each.
    let commands: [&[&[u8]]; 5] = [
        &[b"HELLO", b"3"],
        &[b"SET", key.as_bytes(), b"hello", b"PX", b"10000"],
        &[b"INCRBY", key.as_bytes(), b"1"],
        &[b"GET", key.as_bytes()],
        &[b"DEL", key.as_bytes()],
    ];
    client.ask(&commands, |place, reply| match place {
        0 => {
            let version = reply.as_pairs().and_then(|pairs| pairs.get(b"version"));
            println!("server: {:?}", version.and_then(|text| text.as_str()));
        }
        1 => assert_eq!(reply, Value::Simple(b"OK")),
        // An error is a reply like any other, and the client still gets the replies after it.
        2 => {
            let refused = reply.as_error().expect("text is no number");
            println!("refused: {}", refused.escape_ascii());
        }
        3 => assert_eq!(reply.as_str(), Some("hello")),
        _ => assert_eq!(reply.as_integer(), Some(1)),
    })?;

    // In RESP3, the only answer to a subscription is a push. The server may send our own message before or after the
    // reply to `PUBLISH`, but before `PONG`.
    let channel = key.as_bytes();
    client.send(&[&[b"SUBSCRIBE", channel]])?;
    let commands: [&[&[u8]]; 2] = [&[b"PUBLISH", channel, b"news"], &[b"PING"]];
    client.ask(&commands, |place, reply| match place {
        0 => assert_eq!(reply.as_integer(), Some(1)),
        _ => assert_eq!(reply, Value::Simple(b"PONG")),
    })?;
    for push in &client.pushes {
        println!("push: {push}");
    }
    assert_eq!(client.pushes.len(), 2);
    Ok(())
}

struct Client {
    stream: TcpStream,
    inbox: Inbox,
    /// Pushes as text. A push does not answer a command.
    pushes: Vec<String>,
}

impl Client {
    fn connect(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        Ok(Self {
            stream,
            inbox: Inbox::default(),
            pushes: Vec::new(),
        })
    }

    fn send(&mut self, commands: &[&[&[u8]]]) -> io::Result<()> {
        let mut out = Vec::new();
        for words in commands {
            command(&mut out, words);
        }
        self.stream.write_all(&out)
    }

    /// Sends `commands` and passes each reply to `then`, with the index of its command. Pushes are stored separately,
    /// because a push does not answer a command.
    fn ask(
        &mut self,
        commands: &[&[&[u8]]],
        mut then: impl FnMut(usize, Value<'_>),
    ) -> io::Result<()> {
        self.send(commands)?;
        let (mut buffer, mut replies) = ([0; 4096], 0);
        while replies < commands.len() {
            let mut piece = match self.stream.read(&mut buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => &buffer[..count],
            };
            // A reply may arrive in pieces; the inbox keeps the pieces.
            while let Some(frame) = self.inbox.next(&mut piece).map_err(io::Error::other)? {
                if let Value::Push(_) = frame.value {
                    self.pushes.push(format!("{:?}", frame.value));
                } else {
                    then(replies, frame.value);
                    replies += 1;
                }
            }
        }
        Ok(())
    }
}
