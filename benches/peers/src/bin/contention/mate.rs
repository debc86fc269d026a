//! A mate that gets its orders line by line: this program, started once more, or a thread.

use std::env;
use std::io::{self, BufReader};
use std::net::SocketAddr;
use std::process::Command;
use std::thread;

use clap::ValueEnum;
use shearline_peers::Failure;
use shearline_peers::mate::Mate;

use crate::hands::{Hands, Who};
use crate::play::{self, Part};

/// Starts this program once more, and waits until that has connected.
pub(crate) fn process(part: Part, who: Who, nodes: &[SocketAddr]) -> Result<Mate, Failure> {
    let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    let mut command = Command::new(env::current_exe()?);
    command
        .args(["--play", &word(part)?, "--who", &word(who)?])
        .args(["--at", &nodes.join(",")]);
    Mate::process(command)
}

/// Starts a thread with this client.
pub(crate) fn thread(hands: Box<dyn Hands>) -> Result<Mate, Failure> {
    let (its_input, to) = io::pipe()?;
    let (from, its_output) = io::pipe()?;
    thread::spawn(move || {
        let ended = play::wait(hands, BufReader::new(its_input), its_output);
        if let Err(error) = ended {
            eprintln!("a waiting thread failed: {error}");
        }
    });
    Mate::meet(Box::new(to), Box::new(from), None)
}

fn word(value: impl ValueEnum) -> Result<String, Failure> {
    let value = value.to_possible_value().ok_or("a value without a name")?;
    Ok(value.get_name().to_owned())
}
