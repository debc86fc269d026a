//! Serves the statistics of a handle as Prometheus text on `http://127.0.0.1:PORT/metrics`.
//!
//! `Stats::to_prometheus` returns the text, so an exporter only needs a socket. A program with a web server calls
//! `to_prometheus` in a request handler. For OpenTelemetry, export the fields of `Stats`, as the page `operating` of
//! the manual explains. The page `troubles` contains alert rules.
//!
//! The example serves three requests, or runs for ten seconds. The example sends the requests itself, so that you see
//! some output. `SHEARLINE_SERVE=1` makes the example serve until you stop it.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use shearline::Redlock;

mod nodes;

const TTL: Duration = Duration::from_secs(10);

/// How long the program sleeps between two checks for a request, and how often: ten seconds in total.
const NAP: Duration = Duration::from_millis(5);
const NAPS: u32 = 2_000;

fn main() -> Result<(), Box<dyn Error>> {
    let nodes = nodes::nodes();
    let redlock = Redlock::connect(&nodes.urls)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    println!("serving http://{address}/metrics");
    let name = format!("report:{}", std::process::id());
    for _ in 0..20 {
        let lock = redlock.lock(&name, TTL)?;
        lock.unlock()?;
    }
    let held = redlock.lock(&name, TTL)?;
    if redlock.try_lock(&name, TTL).is_ok() {
        return Err("two have one lock".into());
    }
    if std::env::var_os("SHEARLINE_SERVE").is_some() {
        return serve(&redlock, &listener, usize::MAX, None);
    }
    thread::scope(|scope| {
        let scraper = scope.spawn(move || (0..3).map(|_| scrape(address)).collect::<Vec<_>>());
        serve(&redlock, &listener, 3, Some(NAPS))?;
        let scraped = scraper.join().map_err(|_| "the scraper has panicked")?;
        for page in scraped {
            let page = page?;
            for expected in [
                "shearline_acquisitions_total{outcome=\"acquired\"} 21",
                "shearline_acquisitions_total{outcome=\"held\"} 1",
                "shearline_releases_total{outcome=\"released\"} 20",
                "shearline_held 1",
                "shearline_hold_seconds_count 20",
                "shearline_acquire_seconds_bucket{le=\"+Inf\"} 21",
            ] {
                let lines = page.lines().filter(|line| *line == expected);
                if lines.count() != 1 {
                    return Err(format!("{expected} is missing in:\n{page}").into());
                }
            }
        }
        held.unlock()?;
        println!("{}", redlock.stats().to_prometheus());
        Ok(())
    })
}

/// Answers this many requests, one after another. Fails after `naps` sleeps in total without a request.
fn serve(
    redlock: &Redlock,
    listener: &TcpListener,
    requests: usize,
    mut naps: Option<u32>,
) -> Result<(), Box<dyn Error>> {
    listener.set_nonblocking(naps.is_some())?;
    for _ in 0..requests {
        let stream = loop {
            match listener.accept() {
                Ok((stream, _)) => break stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            match &mut naps {
                Some(0) => return Err("no request came for ten seconds".into()),
                Some(naps) => *naps -= 1,
                None => {}
            }
            thread::sleep(NAP);
        };
        // A client that closes its connection does not stop the server.
        if let Err(error) = answer(redlock, stream) {
            eprintln!("a client was not answered: {error}");
        }
    }
    Ok(())
}

fn answer(redlock: &Redlock, mut stream: TcpStream) -> Result<(), Box<dyn Error>> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut head = BufReader::new((&stream).take(8 * 1024));
    let mut line = String::new();
    while head.read_line(&mut line)? > 2 {
        line.clear(); // There is only one page, whatever the request asks for.
    }
    let body = redlock.stats().to_prometheus();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    Ok(())
}

/// Reads the page, as Prometheus does from time to time.
fn scrape(address: std::net::SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    Ok(page)
}
