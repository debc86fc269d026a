//! Opens a connection, by trying the addresses of a name in order.
//!
//! * If the attempt with one address fails, the link tries the next address immediately.
//! * If a name has IPv4 and IPv6 addresses, the link tries one address of each family at the same time, until a
//!   connection succeeds. So if IPv6 does not work, IPv4 connects without delay. The link uses the first connection,
//!   and resets the other attempt. After that, the link tries only the address that worked.
//!
//! # Not here
//!
//! The engine sets the time limit. After a timeout, the next attempt to connect begins with the following address.

use alloc::vec::{IntoIter, Vec};
use core::net::SocketAddr;

use mio::{Registry, Token};

use crate::driver::resolve::Addresses;
use crate::driver::socket::Socket;
use crate::driver::tls::Terms;
use crate::error::LinkFault;

#[derive(Debug)]
pub(super) struct Opening {
    attempts: Vec<Attempt>,
    /// The addresses to try after the current attempts, each with its index.
    rest: IntoIter<(usize, SocketAddr)>,
    /// The address of the latest attempt.
    pub(super) latest: Option<SocketAddr>,
    /// `true` if an attempt has failed.
    pub(super) has_failed: bool,
}

/// An attempt to connect to one address.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) socket: Socket,
    pub(super) address: SocketAddr,
    /// The index of this address in the answer of the look-up.
    pub(super) place: usize,
}

/// The parts that every attempt needs.
pub(super) struct Opener<'a> {
    pub(super) terms: Option<Terms>,
    pub(super) registry: &'a Registry,
    pub(super) token: Token,
}

impl Opening {
    /// Begins with the address at the index `first`. Also tries an address of the other family, unless the first
    /// address is known to work. Fails if no attempt can begin.
    pub(super) fn begin(
        addresses: Addresses,
        first: usize,
        first_works: bool,
        opener: &Opener<'_>,
    ) -> Result<Self, LinkFault> {
        let addresses = in_order(addresses, first);
        let both = !first_works && begins_with_both_families(&addresses);
        let mut opening = Self {
            attempts: Vec::new(),
            rest: addresses.into_iter(),
            latest: None,
            has_failed: false,
        };
        opening.attempt(LinkFault::Unresolved, opener)?;
        if both {
            // Ignores an immediate failure of the second attempt, because the first one continues.
            let _ = opening.attempt(LinkFault::Unresolved, opener);
        }
        Ok(opening)
    }

    /// Begins one more attempt. If no attempt can begin, returns the error of the last address, or `reason` if no
    /// address was left.
    fn attempt(&mut self, mut reason: LinkFault, opener: &Opener<'_>) -> Result<(), LinkFault> {
        for (place, address) in self.rest.by_ref() {
            let terms = opener.terms.clone();
            match Socket::connect(address, terms, opener.registry, opener.token) {
                Ok(socket) => {
                    self.latest = Some(address);
                    self.attempts.push(Attempt {
                        socket,
                        address,
                        place,
                    });
                    return Ok(());
                }
                Err(error) => reason = error,
            }
        }
        Err(reason)
    }

    /// Continues every attempt, and returns the first connected attempt. Fails if no attempt is left.
    pub(super) fn go_on(&mut self, opener: &Opener<'_>) -> Result<Option<Attempt>, LinkFault> {
        let mut index = 0;
        while let Some(attempt) = self.attempts.get_mut(index) {
            match attempt.socket.is_connected() {
                Ok(true) => return Ok(Some(self.attempts.remove(index))),
                Ok(false) => index += 1,
                Err(reason) => {
                    self.has_failed = true;
                    self.attempts.remove(index).socket.abort(opener.registry);
                    let next = self.attempt(reason, opener);
                    if self.attempts.is_empty() {
                        next?;
                    }
                }
            }
        }
        Ok(None)
    }

    /// Resets every remaining attempt. Returns the index of the address to try first after a timeout.
    pub(super) fn abort(self, registry: &Registry) -> usize {
        let next = self.attempts.first().map_or(0, |one| one.place + 1);
        for attempt in self.attempts {
            attempt.socket.abort(registry);
        }
        next
    }

    #[cfg(test)]
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.attempts.iter().map(|one| one.address).collect()
    }
}

/// Returns the addresses with their indexes, in a cycle that begins at `first`. The first address of the other family
/// moves to the second position.
fn in_order(addresses: Addresses, first: usize) -> Vec<(usize, SocketAddr)> {
    let mut addresses: Vec<_> = addresses.into_iter().enumerate().collect();
    let first = first % addresses.len().max(1);
    addresses.rotate_left(first);
    let other = addresses
        .iter()
        .position(|one| one.1.is_ipv4() != addresses[0].1.is_ipv4());
    if let Some(other) = other {
        addresses[1..=other].rotate_right(1);
    }
    addresses
}

fn begins_with_both_families(addresses: &[(usize, SocketAddr)]) -> bool {
    matches!(addresses, [one, other, ..] if one.1.is_ipv4() != other.1.is_ipv4())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns_at_the_front() {
        let order = |families: &str, first| -> alloc::string::String {
            let addresses = families.chars().enumerate().map(|(place, family)| {
                let port = place as u16 + 1;
                match family {
                    '4' => SocketAddr::from(([127, 0, 0, 1], port)),
                    _ => SocketAddr::from(([0; 16], port)),
                }
            });
            let ordered = in_order(addresses.collect(), first);
            let both = begins_with_both_families(&ordered);
            let places = ordered.iter().map(|(place, _)| alloc::format!("{place}"));
            let places: alloc::string::String = places.collect();
            alloc::format!("{places}{}", if both { " both" } else { "" })
        };
        assert_eq!(order("", 3), "");
        assert_eq!(order("4", 3), "0");
        assert_eq!(order("444", 2), "201");
        assert_eq!(order("6644", 0), "0213 both");
        assert_eq!(order("6644", 1), "1230 both");
        assert_eq!(order("6644", 2), "2031 both");
        assert_eq!(order("64", 1), "10 both");
    }
}
