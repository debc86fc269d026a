//! Money goes from one account to another, under one lock on both accounts.
//!
//! Threads of two handles make payments between all accounts, and always name the payer's account first. Each node
//! grants both names together, so no thread holds one account while it waits for the other account. So the threads need
//! not agree on an order. At the end, the total of all accounts is the same as before.

use std::error::Error;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use shearline::{LockError, LockOptions, Redlock};

mod nodes;

const ACCOUNTS: usize = 3;
const PAYMENTS: usize = 20;
const AT_FIRST: i64 = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let nodes = nodes::nodes();
    let names: Vec<String> = (0..ACCOUNTS)
        .map(|account| format!("account:{}:{account}", std::process::id()))
        .collect();
    // Only one thread at a time may read the balance of an account, compute, and write the new balance.
    let balances: Vec<AtomicI64> = (0..ACCOUNTS).map(|_| AtomicI64::new(AT_FIRST)).collect();
    let handles = [
        Redlock::connect(&nodes.urls)?,
        Redlock::connect(&nodes.urls)?,
    ];
    let ends: Vec<_> = thread::scope(|scope| {
        let pay = |redlock: &Redlock, from: usize, to: usize| -> Result<(), LockError> {
            for _ in 0..PAYMENTS {
                let both = [&names[from], &names[to]];
                let options =
                    LockOptions::new(Duration::from_secs(10)).wait(Duration::from_secs(60));
                let _lock = redlock.lock_all_with(both, &options)?;
                let (left, right) = (read(&balances[from]), read(&balances[to]));
                thread::yield_now();
                balances[from].store(left - 1, Ordering::Relaxed);
                balances[to].store(right + 1, Ordering::Relaxed);
            }
            Ok(())
        };
        let pairs = (0..ACCOUNTS)
            .flat_map(|from| (1..ACCOUNTS).map(move |by| (from, (from + by) % ACCOUNTS)));
        let threads: Vec<_> = pairs
            .zip(handles.iter().cycle())
            .map(|((from, to), redlock)| scope.spawn(move || pay(redlock, from, to)))
            .collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    for end in ends {
        end.map_err(|_| "a thread has panicked")??;
    }
    let balances: Vec<i64> = balances.iter().map(read).collect();
    println!(
        "{} payments, balances {balances:?}",
        ACCOUNTS * (ACCOUNTS - 1) * PAYMENTS
    );
    match balances.iter().sum::<i64>() == AT_FIRST * ACCOUNTS as i64 {
        true => Ok(()),
        false => Err("money was lost or made".into()),
    }
}

fn read(balance: &AtomicI64) -> i64 {
    balance.load(Ordering::Relaxed)
}
