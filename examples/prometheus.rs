//! What a handle has done, as Prometheus text on `http://127.0.0.1:PORT/metrics`.
//!
//! `Redlock::stats` returns plain values, so an exporter needs no more than a socket. A program that has a
//! web server already calls `text` in one of its handlers. OpenTelemetry is fed the same way: see the
//! manual, page `operating`; its page `troubles` has alert rules.
//!
//! The example serves until it was asked three times, or for ten seconds. It asks itself, so that there is
//! something to see: `SHEARLINE_SERVE=1` makes it serve until it is stopped.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use shearline::{Histogram, Redlock, Stats};

mod nodes;

const TTL: Duration = Duration::from_secs(10);

/// While nobody asks the example sleeps so long, and so often: ten seconds.
const NAP: Duration = Duration::from_millis(5);
const NAPS: u32 = 2_000;

/// The bounds of the buckets that are shown, in seconds. A histogram of the library has more: pick what fits
/// your times.
const BOUNDS: [f64; 14] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0,
];

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
        println!("{}", text(&redlock.stats())?);
        Ok(())
    })
}

/// Answers so many requests, one after the other. Sleeps so often at most while nobody asks.
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
                Some(0) => return Err("nobody has asked for ten seconds".into()),
                Some(naps) => *naps -= 1,
                None => {}
            }
            thread::sleep(NAP);
        };
        // A client that goes away is no reason to stop.
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
        line.clear(); // Whatever was asked for, there is one page.
    }
    let body = text(&redlock.stats())?;
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    Ok(())
}

/// What Prometheus does from time to time.
fn scrape(address: std::net::SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    Ok(page)
}

// ----- the text ---------------------------------------------------------------------------------

/// Returns `stats` in the text format of Prometheus.
fn text(stats: &Stats) -> Result<String, fmt::Error> {
    let mut page = String::new();
    let (taken, extended, released) = (&stats.acquisitions, &stats.extensions, &stats.releases);
    counters(
        &mut page,
        "shearline_acquisitions_total",
        "Calls that take a lock, by outcome.",
        &[
            ("acquired", taken.acquired),
            ("held", taken.held),
            ("no_quorum", taken.no_quorum),
            ("too_slow", taken.too_slow),
            ("other_cluster", taken.other_cluster),
            ("saturated", taken.saturated),
            ("cancelled", taken.cancelled),
        ],
    )?;
    counters(
        &mut page,
        "shearline_extensions_total",
        "Extensions, by outcome.",
        &[
            ("extended", extended.extended),
            ("unconfirmed", extended.unconfirmed),
            ("lost", extended.lost),
            ("expired", extended.expired),
            ("limit", extended.limit),
            ("saturated", extended.saturated),
            ("cancelled", extended.cancelled),
        ],
    )?;
    counters(
        &mut page,
        "shearline_releases_total",
        "Releases, by outcome.",
        &[
            ("released", released.released),
            ("not_held", released.not_held),
            ("unconfirmed", released.unconfirmed),
            ("unwatched", released.unwatched),
        ],
    )?;
    let lost = "Locks that ended before they were released.";
    single(
        &mut page,
        "shearline_lost_total",
        "counter",
        lost,
        stats.lost,
    )?;
    let twice = "Locks whose fencing token took a second round trip.";
    single(
        &mut page,
        "shearline_second_round_trips_total",
        "counter",
        twice,
        stats.second_round_trips,
    )?;
    for (name, help, value) in [
        ("waiting", "Callers that wait for a lock.", stats.waiting),
        ("held", "Locks that are held.", stats.held),
        ("kept", "Locks that are extended by the handle.", stats.kept),
        ("owed", "Releases that nodes are owed.", stats.owed),
    ] {
        let name = format!("shearline_{name}");
        single(&mut page, &name, "gauge", help, value as u64)?;
    }
    for (name, help, histogram) in [
        ("acquire", "From the call to the grant.", &stats.acquire),
        (
            "wait",
            "From the call to the attempt that was granted, or to the refusal.",
            &stats.wait,
        ),
        (
            "hold",
            "From the grant to the release or loss.",
            &stats.hold,
        ),
        (
            "validity_left",
            "Validity that was left at the release.",
            &stats.validity_left,
        ),
    ] {
        let name = format!("shearline_{name}_seconds");
        head(&mut page, &name, "histogram", help)?;
        buckets(&mut page, &name, "", histogram)?;
    }
    let name = "shearline_node_latency_seconds";
    head(
        &mut page,
        name,
        "histogram",
        "From a command to its answer, by node.",
    )?;
    for node in &stats.nodes {
        let label = format!("node=\"{}\",", node.address);
        buckets(&mut page, name, &label, &node.latency)?;
    }
    Ok(page)
}

fn head(page: &mut String, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

fn single(page: &mut String, name: &str, kind: &str, help: &str, value: u64) -> fmt::Result {
    head(page, name, kind, help)?;
    writeln!(page, "{name} {value}")
}

fn counters(page: &mut String, name: &str, help: &str, values: &[(&str, u64)]) -> fmt::Result {
    head(page, name, "counter", help)?;
    values
        .iter()
        .try_for_each(|(outcome, value)| writeln!(page, "{name}{{outcome=\"{outcome}\"}} {value}"))
}

/// The buckets of Prometheus count what is no longer than their bound, so each has all shorter ones.
fn buckets(page: &mut String, name: &str, label: &str, histogram: &Histogram) -> fmt::Result {
    for bound in BOUNDS {
        let within = histogram.within(Duration::from_secs_f64(bound));
        writeln!(page, "{name}_bucket{{{label}le=\"{bound}\"}} {within}")?;
    }
    let (count, sum) = (histogram.count(), histogram.sum().as_secs_f64());
    let labels = match label.trim_end_matches(',') {
        "" => String::new(),
        label => format!("{{{label}}}"),
    };
    writeln!(page, "{name}_bucket{{{label}le=\"+Inf\"}} {count}")?;
    writeln!(
        page,
        "{name}_sum{labels} {sum}\n{name}_count{labels} {count}"
    )
}
