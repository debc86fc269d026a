//! What happens to connections with TLS while a program lives, and when it ends.

use super::*;
use crate::fork::in_child;
use crate::servers::{Cluster, Reply, until};

/// A certificate that is renewed on the server needs nothing here; one of another authority needs
/// that authority's file, which is read again for the next connection.
#[test]
fn changed_files_are_read_for_the_next_connection() {
    let scene = Scene::new();
    let encryption = scene.encryption(&scene.right()).of_known_clients();
    let mut server = Server::with(&Options::redis().encrypted(&encryption));
    let own = scene.directory.path().join("own");
    fs::create_dir(&own).expect("a directory");
    let file = |name: &str, text: &str| write(&own.join(name), text);
    let client = scene.authority.client(Now);
    let ca = file("ca", &scene.authority.pem());
    let certificate = file("certificate", &client.certificate);
    let key = file("key", &client.key);
    let address = server.address_for_clients();
    let url = format!("rediss://{address}?ca={ca}&cert={certificate}&key={key}");
    let mut face = Which::Shared.build(at([url]).max_ttl(LONG));
    face.trust_all();
    works(&mut face, "before");

    // The server gets all files from another authority.
    let next = Authority::new("next");
    let issued = next.server(&["127.0.0.1"], Now);
    Encryption::new(scene.directory.path(), &next.pem(), &issued);
    server.restart();
    let state = |face: &Face| face.nodes()[0].state;
    let says = |face: &Face, text| matches!(state(face), NodeState::Unusable(why @ Unusable::Tls(_)) if why.to_string().contains(text));
    until("the new authority is unknown", || {
        says(&face, "comes from an unknown authority")
    });
    file("ca", &next.pem());
    until("it refuses the old client certificate", || {
        says(&face, "(TLS alert 48)")
    });
    fs::remove_file(&key).expect("a file");
    until("the missing key is named", || {
        says(
            &face,
            "the key of the client certificate can no longer be used: no such file",
        )
    });
    let client = next.client(Now);
    file("certificate", &client.certificate);
    file("key", &client.key);
    until("the node is back", || {
        face.trust_all();
        state(&face) == NodeState::Ready
    });
    works(&mut face, "after");
}

/// A child of a fork has copies of the sockets, and of the keys. If it wrote anything, a farewell for
/// example, the parent's connections would be broken: records are numbered.
#[test]
fn a_forked_child_writes_nothing() {
    let scene = Scene::new();
    let options = Options::redis().encrypted(&scene.encryption(&scene.right()));
    let cluster = Cluster::with(3, &options);
    let redlock = at(cluster.urls()).build().expect("good settings");
    let local = at(cluster.urls()).build_local().expect("good settings");
    let mut faces = [Face::Shared(redlock.clone()), Face::Local(Box::new(local))];
    for face in &mut faces {
        face.await_ready();
    }
    let guard = redlock.try_lock("fork", LONG).expect("free");
    let connections = |cluster: &Cluster| -> Vec<String> {
        let count = |server: &Server| server.raw().info("stats", "total_error_replies");
        cluster.iter().filter_map(count).collect()
    };
    let errors = connections(&cluster);
    let ids = |cluster: &Cluster| -> Vec<Vec<String>> { cluster.iter().map(clients).collect() };
    let before = ids(&cluster);
    let mut copies = Some((guard, redlock.clone()));
    let faces = std::cell::RefCell::new(faces);
    in_child(
        move || {
            drop(copies.take());
            Ok(())
        },
        || {
            for face in faces.borrow_mut().iter_mut() {
                let lock = face.try_lock("after", LONG).expect("free");
                assert!(face.unlock(lock).expect("held").deleted >= 2);
            }
        },
    );
    assert_eq!(ids(&cluster), before, "the same connections");
    assert_eq!(connections(&cluster), errors);
}

/// The ids of the clients of a server over its TLS port.
fn clients(server: &Server) -> Vec<String> {
    let Reply::Bulk(list) = server.raw().run("CLIENT LIST") else {
        panic!("it is a text");
    };
    let list = String::from_utf8(list).expect("a text");
    let port = format!("laddr={}", server.address_for_clients());
    let ours = list.lines().filter(|line| line.contains(&port));
    let ids = ours.filter_map(|line| line.split(' ').next());
    ids.map(str::to_owned).collect()
}
