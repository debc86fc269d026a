//! A document with many readers and few writers. Readers take shared locks, and writers take the exclusive lock.
//!
//! The document has two halves, and a writer changes one after the other. A reader between the two changes would see
//! halves that do not belong together. Readers of two handles read at the same time, but never together with a writer.
//! After its change, a writer turns its lock into a shared lock and reads the document together with the other readers.
//! No other writer can change the document in between.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use shearline::{LockOptions, Redlock};

mod nodes;

const READERS: usize = 6;
const READS: usize = 20;
const WRITERS: usize = 2;
const CHANGES: u64 = 5;

type Done = Result<(), Box<dyn Error + Send + Sync>>;

/// The document that is locked, and what its readers have seen.
#[derive(Default)]
struct Document {
    halves: [AtomicU64; 2],
    readers: AtomicU64,
    most: AtomicU64,
    /// How often a reader saw a writer's half-done change.
    torn: AtomicU64,
}

fn main() -> Done {
    let nodes = nodes::nodes();
    let name = format!("document:{}", std::process::id());
    let document = Document::default();
    let handles = [
        Redlock::connect(&nodes.urls)?,
        Redlock::connect(&nodes.urls)?,
    ];
    let ends: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..READERS + WRITERS)
            .zip(handles.iter().cycle())
            .map(|(thread, redlock)| {
                let (name, document) = (&name, &document);
                scope.spawn(move || match thread < READERS {
                    true => read(redlock, name, document),
                    false => write(redlock, name, document),
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    for end in ends {
        end.map_err(|_| "a thread has panicked")??;
    }
    let [changes, most, torn] =
        [&document.halves[0], &document.most, &document.torn].map(|number| number.load(Relaxed));
    println!("up to {most} have read at once; {changes} changes; {torn} reads beside a writer");
    match (changes, torn) == (WRITERS as u64 * CHANGES, 0) {
        true => Ok(()),
        false => Err("a writer was not alone".into()),
    }
}

fn read(redlock: &Redlock, name: &str, document: &Document) -> Done {
    for _ in 0..READS {
        let _reading = redlock.lock_shared_with(name, &options())?;
        document.read();
    }
    Ok(())
}

fn write(redlock: &Redlock, name: &str, document: &Document) -> Done {
    for _ in 0..CHANGES {
        let writing = redlock.lock_with(name, &options())?;
        let change = document.halves[0].load(Relaxed) + 1;
        for half in &document.halves {
            half.store(change, Relaxed);
            thread::sleep(Duration::from_millis(1));
        }
        let _reading = writing.downgrade()?;
        if document.read() != change {
            return Err("another writer was there".into());
        }
    }
    Ok(())
}

fn options() -> LockOptions {
    LockOptions::new(Duration::from_secs(10)).wait(Duration::from_secs(60))
}

impl Document {
    /// Reads both halves, and returns the number in the first half.
    fn read(&self) -> u64 {
        let readers = self.readers.fetch_add(1, Relaxed) + 1;
        self.most.fetch_max(readers, Relaxed);
        let first = self.halves[0].load(Relaxed);
        thread::sleep(Duration::from_millis(2));
        let second = self.halves[1].load(Relaxed);
        self.torn.fetch_add(u64::from(first != second), Relaxed);
        self.readers.fetch_sub(1, Relaxed);
        first
    }
}
