//! The simulator: the whole engine in worlds where everything goes wrong, under the eyes of
//! oracles.

mod client;
mod clock;
mod entropy;
mod faults;
mod link;
mod mend;
mod network;
mod oracle;
mod plan;
mod server;
mod stranger;
mod trace;
mod user;
mod world;

use entropy::Entropy;
use world::World;

/// How many worlds the ordinary run looks at.
const SEEDS: u64 = 300;

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().expect("a number"))
}

#[test]
fn worlds_keep_their_promises() {
    let first = number("FIRST_SEED").unwrap_or(0);
    let seeds = number("SEEDS").unwrap_or(SEEDS);
    let begin = std::time::Instant::now();
    let (mut inputs, mut bad) = (0, 0);
    let mut counts = oracle::Counts::default();
    let mut virtual_time = 0;
    for seed in first..first + seeds {
        let mut world = World::new(Entropy::of_seed(seed), number("TRACE").is_some());
        let outcome = world.run();
        inputs += world.inputs;
        counts.add(&world.oracle.counts);
        virtual_time += world.now;
        if let Err(violation) = outcome {
            bad += 1;
            println!("seed {seed}: {violation:?}");
            if number("TRACE").is_some() {
                for line in world.into_story().0 {
                    println!("{line}");
                }
            }
        }
    }
    let spent = begin.elapsed().as_secs_f64();
    println!(
        "{seeds} worlds, {bad} bad, {inputs} inputs in {spent:.1} s, {:.0} inputs/s, {:.0} virtual s\n\
         {counts}",
        inputs as f64 / spent,
        virtual_time as f64 / 1e9
    );
    assert_eq!(bad, 0);
}
