//! A client of one server on a standard socket, made of the codec alone: commands in a pipeline,
//! replies that borrow from the buffer, one that is kept, and pushes.
//!
//! ```text
//! SHEARLINE_NODES=redis://127.0.0.1:6379 cargo run --no-default-features --example resp_client
//! ```

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use shearline::resp::{Decoder, Frame, Limits, OwnedValue, Value, command};

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

    // A pipeline: all commands at once, then as many replies.
    client.send(&[
        &[b"HELLO", b"3"],
        &[b"SET", key.as_bytes(), b"hello", b"PX", b"10000"],
        &[b"INCRBY", key.as_bytes(), b"1"],
        &[b"GET", key.as_bytes()],
        &[b"DEL", key.as_bytes()],
    ])?;
    let hello = client.reply()?.value.to_owned();
    let version = hello.as_pairs().and_then(|pairs| pairs.get(b"version"));
    println!("server: {:?}", version.and_then(OwnedValue::as_str));
    assert_eq!(client.reply()?.value, Value::Simple(b"OK"));
    // An error is a reply like any other; the replies after it still arrive.
    let refused = client.reply()?.value.to_owned();
    let refused = refused.as_error().ok_or("text was taken for a number")?;
    println!("refused: {}", refused.escape_ascii());
    assert_eq!(client.reply()?.value.as_str(), Some("hello"));
    assert_eq!(client.reply()?.value.as_integer(), Some(1));

    // In RESP3 a subscription is answered by a push and by nothing else. The message to oneself
    // comes before the reply to `PUBLISH` or behind it, as the server likes, but before `PONG`.
    let channel = key.as_bytes();
    client.send(&[
        &[b"SUBSCRIBE", channel],
        &[b"PUBLISH", channel, b"news"],
        &[b"PING"],
    ])?;
    assert_eq!(client.reply()?.value.as_integer(), Some(1));
    assert_eq!(client.reply()?.value, Value::Simple(b"PONG"));
    for push in &client.pushes {
        println!("push: {push:?}");
    }
    assert_eq!(client.pushes.len(), 2);
    Ok(())
}

struct Client {
    stream: TcpStream,
    decoder: Decoder,
    received: Vec<u8>,
    /// Bytes of the reply that was returned last.
    spent: usize,
    /// Pushes: replies to no command.
    pushes: Vec<OwnedValue>,
}

impl Client {
    fn connect(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        Ok(Self {
            stream,
            decoder: Decoder::new(Limits::default()),
            received: Vec::new(),
            spent: 0,
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

    /// Returns the next reply, which borrows from the received bytes. Pushes are put aside: they must
    /// not be taken for the reply to a command.
    fn reply(&mut self) -> io::Result<Frame<'_>> {
        while let Some(push) = self.next()? {
            self.pushes.push(push);
        }
        self.decoder.frame(&self.received).map_err(io::Error::other)
    }

    /// Goes on to the next reply. Returns it if it is a push.
    fn next(&mut self) -> io::Result<Option<OwnedValue>> {
        self.received.drain(..self.spent);
        self.spent = 0;
        self.spent = self.measure()?;
        let frame = self.decoder.frame(&self.received);
        let frame = frame.map_err(io::Error::other)?;
        Ok(matches!(frame.value, Value::Push(_)).then(|| frame.to_owned()))
    }

    /// Reads until a reply is complete. Returns its length.
    fn measure(&mut self) -> io::Result<usize> {
        loop {
            let measured = self.decoder.measure(&self.received);
            if let Some(len) = measured.map_err(io::Error::other)? {
                return Ok(len);
            }
            let mut piece = [0; 4096];
            match self.stream.read(&mut piece)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.received.extend_from_slice(&piece[..count]),
            }
        }
    }
}
