use shearline::Redlock;
use std::time::{Duration, Instant};
fn pct(mut v: Vec<u64>) -> String {
    v.sort();
    format!(
        "p50 {} p90 {} p99 {} max {}",
        v[v.len() / 2],
        v[v.len() * 9 / 10],
        v[v.len() * 99 / 100],
        v[v.len() - 1]
    )
}
fn main() {
    let mode = std::env::args().nth(1).unwrap();
    let n: usize = std::env::args().nth(2).unwrap().parse().unwrap();
    let b = Redlock::builder().nodes((7411..=7415).map(|p| format!("127.0.0.1:{p}")));
    let ttl = Duration::from_secs(10);
    let mut v = vec![];
    match mode.as_str() {
        "local" => {
            let mut l = b.build_local().unwrap();
            for _ in 0..n {
                let s = Instant::now();
                let k = l.lock("a", ttl).unwrap();
                l.unlock(k).unwrap();
                v.push(s.elapsed().as_micros() as u64);
            }
        }
        "shared" => {
            let l = b.build().unwrap();
            for _ in 0..n {
                let s = Instant::now();
                let k = l.lock("a", ttl).unwrap();
                k.unlock().unwrap();
                v.push(s.elapsed().as_micros() as u64);
            }
        }
        "slowly" => {
            let l = b.build().unwrap();
            for _ in 0..n {
                let s = Instant::now();
                let k = l.lock("a", ttl).unwrap();
                k.unlock().unwrap();
                v.push(s.elapsed().as_micros() as u64);
                std::thread::sleep(Duration::from_millis(3));
            }
        }
        "drop" => {
            let l = b.build().unwrap();
            for _ in 0..n {
                let s = Instant::now();
                let k = l.lock("a", ttl).unwrap();
                drop(k);
                v.push(s.elapsed().as_micros() as u64);
            }
        }
        "idle" => {
            let l = b.build().unwrap();
            let _g = l.lock("a", ttl).unwrap();
            std::thread::sleep(Duration::from_secs(3));
            v.push(0);
        }
        t => {
            let t: usize = t.parse().unwrap();
            let l = b.build().unwrap();
            let all = std::sync::Mutex::new(vec![]);
            std::thread::scope(|s| {
                for i in 0..t {
                    let (l, all) = (&l, &all);
                    s.spawn(move || {
                        let mut v = vec![];
                        let key = format!("k{i}");
                        for _ in 0..n {
                            let s = Instant::now();
                            let k = l.lock(&key, ttl).unwrap();
                            k.unlock().unwrap();
                            v.push(s.elapsed().as_micros() as u64);
                        }
                        all.lock().unwrap().extend(v);
                    });
                }
            });
            v = all.into_inner().unwrap();
        }
    }
    println!("{mode}: {} us", pct(v));
}
