//! Names with addresses of both families.

use super::*;
use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
use std::os::fd::OwnedFd;

/// A listener on `[::1]`.
fn listener_6() -> TcpListener {
    TcpListener::bind("[::1]:0").unwrap()
}

/// Returns an IPv6 address that answers nothing: a listener whose queue is full, and the connection that fills it.
fn silent_6() -> (OwnedFd, SocketAddr, TcpStream) {
    let any: SocketAddr = "[::1]:0".parse().unwrap();
    let listener = socket(AddressFamily::INET6, SocketType::STREAM, None).unwrap();
    bind(&listener, &any).unwrap();
    listen(&listener, 0).unwrap();
    let address: SocketAddr = getsockname(&listener).unwrap().try_into().unwrap();
    let filling = TcpStream::connect(address).unwrap();
    (listener, address, filling)
}

/// Begins to connect to these addresses of one name, and returns those that are tried at first.
fn tried(world: &mut World, addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let found = addresses.to_vec();
    world.link.lookup = Some(Lookup::run(None, &world.waker, move || Ok(found)).unwrap());
    world.open();
    while matches!(world.link.state, State::Resolving) {
        world.turn();
    }
    tried_now(world)
}

fn tried_now(world: &World) -> Vec<SocketAddr> {
    let State::Connecting(opening) = &world.link.state else {
        panic!("not being opened but {:?}", world.link.state)
    };
    opening.addresses()
}

fn close(world: &mut World) {
    world.with(|link, tools| link.abort(tools.registry));
    assert_eq!(world.take(), []);
}

#[test]
fn where_ipv6_leads_nowhere_ipv4_connects_without_waiting_for_it() {
    let (_full, silent, _filling) = silent_6();
    let listener = listener();
    let good = listener.local_addr().unwrap();
    let mut world = World::new(&name("both", 1));
    let addresses = [silent, good];
    assert_eq!(tried(&mut world, &addresses), addresses);
    assert_eq!(world.turn_until(&Connected), [Connected]);
    assert_eq!(peer_of(world.socket()), good);
    assert_eq!(world.link.last, Some(good), "a probe asks the same address");
    // The address that worked is tried alone.
    close(&mut world);
    assert_eq!(tried(&mut world, &addresses), [good]);
    assert_eq!(world.turn_until(&Connected), [Connected]);
}

#[test]
fn of_two_that_connect_the_first_stays_and_the_other_is_reset() {
    let (v6, v4) = (listener_6(), listener());
    let addresses = [&v6, &v4].map(|listener| listener.local_addr().unwrap());
    let mut world = World::new(&name("both", 1));
    assert_eq!(tried(&mut world, &addresses), addresses);
    assert_eq!(world.turn_until(&Connected), [Connected]);
    let won = peer_of(world.socket());
    let (mut winner, mut loser) = (v6.accept().unwrap().0, v4.accept().unwrap().0);
    if won != addresses[0] {
        core::mem::swap(&mut winner, &mut loser);
    }
    let end = loser.read(&mut [0; 9]).unwrap_err();
    assert_eq!(end.kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(world.write(b"HELLO"), Ok(5));
    let mut bytes = [0; 5];
    winner.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"HELLO");
    winner.write_all(b"+OK\r\n").unwrap();
    assert_eq!(
        world.turn_until(&received(b"+OK\r\n")),
        [received(b"+OK\r\n")]
    );
}

#[test]
fn the_attempt_fails_when_both_have_failed() {
    let refusing = listener_6().local_addr().unwrap();
    let mut world = World::new(&name("both", 1));
    let addresses = [refusing, unused_address()];
    tried(&mut world, &addresses);
    let refused = Disconnected(LinkFault::Refused);
    assert_eq!(world.turn_until(&refused).len(), 1);
    assert!(world.is_idle());

    // One address refuses, and the other says nothing, which takes too long for the engine.
    let (_full, silent, _filling) = silent_6();
    let addresses = [silent, unused_address()];
    assert_eq!(tried(&mut world, &addresses), addresses);
    while tried_now(&world).len() == 2 {
        world.turn();
    }
    assert_eq!(tried_now(&world), [silent]);
    close(&mut world);
    // Then the other address is tried first, and this one at the same time.
    let listener = listener();
    let good = listener.local_addr().unwrap();
    assert_eq!(tried(&mut world, &[silent, good]), [good, silent]);
    assert_eq!(world.turn_until(&Connected), [Connected]);
}

/// Knowledge about an address says nothing about another address that is at the same index now.
#[test]
fn a_name_that_has_changed_is_connected_to_as_one_that_is_new() {
    let (_full, silent, _filling) = silent_6();
    let (old, new) = (listener(), listener());
    let (old, good) = (old.local_addr().unwrap(), new.local_addr().unwrap());
    let mut world = World::new(&name("both", 1));
    assert_eq!(tried(&mut world, &[old]), [old]);
    close(&mut world);
    let _kept = TcpListener::bind(old);
    assert_eq!(tried(&mut world, &[good]), [good]);
    assert_eq!(world.turn_until(&Connected), [Connected]);
    close(&mut world);
    let newer = listener();
    let newer = newer.local_addr().unwrap();
    assert_eq!(tried(&mut world, &[silent, newer]), [silent, newer]);
    assert_eq!(world.turn_until(&Connected), [Connected]);
    // An address that has worked is tried alone, even if it has another index in the answer now.
    close(&mut world);
    assert_eq!(tried(&mut world, &[newer, silent]), [newer]);
    close(&mut world);
}
