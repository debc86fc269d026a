//! Resource names are bytes, and are the Redis keys.

use crate::face::{Which, over};
use crate::scene::clusters;
use crate::servers::{self, Cluster, LONG};

#[test]
fn any_bytes_are_a_name() {
    clusters().for_each(|cluster| story(&cluster));
}

fn story(cluster: &Cluster) {
    let longest = vec![b'x'; 1024];
    let all_bytes: Vec<u8> = (0..=255).collect();
    let names: [&[u8]; 13] = [
        b"plain",
        b"\r\n",
        b"line\r\nbreak",
        b"\0",
        b"nul\0inside",
        b" ",
        b"with spaces  and\ttabs ",
        b"*1\r\n$8\r\nFLUSHALL\r\n",
        b"$-1\r\n",
        b"'\"\\%s{}$",
        "schl\u{fc}ssel \u{1f511}".as_bytes(),
        &all_bytes,
        &longest,
    ];
    for which in Which::BOTH {
        let mut face = which.build(over(cluster));
        let bystander = face.try_lock("bystander", LONG).expect("free");
        for name in names {
            let shown = name.escape_ascii();
            let mut lock = face
                .try_lock(name, LONG)
                .unwrap_or_else(|error| panic!("{shown}: {error}"));
            assert_eq!(lock.resource(), name, "{shown}");
            let token = lock.token();
            let copies: Vec<_> = cluster.values(name).into_iter().flatten().collect();
            assert!(
                copies.len() >= 2 && copies.iter().all(|copy| *copy == token),
                "{shown}"
            );
            face.extend(&mut lock, LONG)
                .unwrap_or_else(|error| panic!("{shown}: {error}"));
            face.unlock(lock)
                .unwrap_or_else(|error| panic!("{shown}: {error}"));
            face.assert_gone(cluster, name);
        }
        face.unlock(bystander).expect("nothing has flushed it");
    }
}

/// The owner label follows the random bytes of the token, on the nodes too.
#[test]
fn the_owner_label_is_part_of_the_token() {
    let cluster = servers::three();
    for which in Which::BOTH {
        let mut face = which.build(over(&cluster).owner("billing-7"));
        let key = which.key("label");
        let lock = face.try_lock(&key, LONG).expect("free");
        let token = lock.token();
        assert_eq!(token.len(), 20 + "billing-7".len());
        assert_eq!(&token[20..], b"billing-7");
        assert!(cluster.values(&key).contains(&Some(token.clone())));
        face.unlock(lock).expect("held");
        // Each lock has fresh random bytes.
        let lock = face.try_lock(&key, LONG).expect("free");
        assert_ne!(lock.token(), token);
        face.unlock(lock).expect("held");
        face.assert_gone(&cluster, &key);
    }
}
