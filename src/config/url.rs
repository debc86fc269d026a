//! From the text of a node's URL to a [`NodeConfig`].
//!
//! Any text is met with a node or with an [`UrlProblem`], which never holds a part of it. The
//! grammar stands at [`NodeConfig`]. It is narrower than that of general URLs on purpose: what is
//! not known to mean something is refused, so that a slip in a password cannot end up as a host.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::node::{Address, Credentials, Host, NodeConfig};
use crate::error::UrlProblem;
use crate::limits::{CREDENTIAL_BYTES_MAX, HOST_BYTES_MAX, UNIX_PATH_BYTES_MAX};

const PORT_DEFAULT: u16 = 6379;

enum Scheme {
    Tcp,
    Unix,
}

pub(super) fn parse(text: &str) -> Result<NodeConfig, UrlProblem> {
    if text.is_empty() {
        return Err(UrlProblem::Empty);
    }
    if text
        .chars()
        .any(|letter| letter.is_control() || letter.is_whitespace())
    {
        return Err(UrlProblem::Character);
    }
    let (scheme, rest) = split_scheme(text)?;
    let (userinfo, place, tail) = split_authority(rest)?;
    let credentials = userinfo.map(credentials).transpose()?.flatten();
    match scheme {
        Scheme::Tcp => {
            let address = tcp_address(place)?;
            Ok(NodeConfig::new(address, credentials, tcp_database(tail)?))
        }
        // A unix socket is on this machine; a host in front of its path is a slip.
        Scheme::Unix if !place.is_empty() => Err(UrlProblem::Path),
        Scheme::Unix => {
            let (path, query) = tail.split_at(tail.find(['?', '#']).unwrap_or(tail.len()));
            let address = Address::Unix {
                path: unix_path(path)?,
            };
            Ok(NodeConfig::new(address, credentials, unix_database(query)?))
        }
    }
}

/// The scheme and what follows its slashes. `unix:/path` has no authority and is whole; it is
/// how a label looks.
fn split_scheme(text: &str) -> Result<(Scheme, &str), UrlProblem> {
    if let Some((scheme, path)) = text.split_at_checked("unix:".len())
        && scheme.eq_ignore_ascii_case("unix:")
        && path.starts_with('/')
        && !path.starts_with("//")
    {
        return Ok((Scheme::Unix, path));
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        return Ok((Scheme::Tcp, text));
    };
    let is = |name| scheme.eq_ignore_ascii_case(name);
    match () {
        () if is("redis") || is("valkey") => Ok((Scheme::Tcp, rest)),
        () if is("unix") => Ok((Scheme::Unix, rest)),
        () if is("rediss") || is("valkeys") => Err(UrlProblem::Tls),
        () => Err(UrlProblem::Scheme),
    }
}

/// Credentials, host and port, and what begins with `/`, `?` or `#`.
///
/// An `@` in the last part means that a password was not escaped. Taking it for a path or a
/// database instead would show a piece of that password as part of the address.
fn split_authority(rest: &str) -> Result<(Option<&str>, &str, &str), UrlProblem> {
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if tail.contains('@') {
        return Err(UrlProblem::Credentials);
    }
    Ok(match authority.rsplit_once('@') {
        Some((userinfo, place)) => (Some(userinfo), place, tail),
        None => (None, authority, tail),
    })
}

/// `user`, `user:password` or `:password`. Nothing at all, as a template with empty variables
/// gives it, is no login.
fn credentials(userinfo: &str) -> Result<Option<Credentials>, UrlProblem> {
    let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
    let user = credential(user)?;
    let password = credential(password)?;
    if user.is_empty() && password.is_empty() {
        return Ok(None);
    }
    let user = if user.is_empty() { None } else { Some(user) };
    Ok(Some(Credentials { user, password }))
}

fn credential(text: &str) -> Result<String, UrlProblem> {
    let decoded = percent_decoded(text)?;
    if decoded.len() > CREDENTIAL_BYTES_MAX {
        return Err(UrlProblem::CredentialsTooLong);
    }
    Ok(decoded)
}

fn tcp_address(place: &str) -> Result<Address, UrlProblem> {
    if let Some(bracketed) = place.strip_prefix('[') {
        let (ip, after) = bracketed.split_once(']').ok_or(UrlProblem::Host)?;
        let ip: Ipv6Addr = ip.parse().map_err(|_| UrlProblem::Host)?;
        let port = match after.strip_prefix(':') {
            Some(port) => port_number(port)?,
            None if after.is_empty() => PORT_DEFAULT,
            None => return Err(UrlProblem::Port),
        };
        return Ok(Address::Tcp {
            host: Host::Ip(ip.to_canonical()),
            port,
        });
    }
    let (name, port) = match place.split_once(':') {
        // An IPv6 address without brackets: where it ends and the port begins cannot be told.
        Some((_, port)) if port.contains(':') => return Err(UrlProblem::Host),
        Some((name, port)) => (name, Some(port)),
        None => (place, None),
    };
    let host = host(name)?;
    let port = port.map_or(Ok(PORT_DEFAULT), port_number)?;
    Ok(Address::Tcp { host, port })
}

fn host(name: &str) -> Result<Host, UrlProblem> {
    if let Ok(ip) = name.parse::<Ipv4Addr>() {
        return Ok(Host::Ip(IpAddr::V4(ip)));
    }
    // One dot at the end marks a name as complete and belongs to it.
    let labels = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| {
        let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=63).contains(&label.len()) && label.bytes().all(is_legal)
    };
    // Resolvers read `127.1`, `010.0.0.1` and `0x7f.1` as addresses, and not all alike.
    let last = labels.rsplit('.').next().unwrap_or_default();
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit())
        || last
            .get(..2)
            .is_some_and(|prefix| prefix.eq_ignore_ascii_case("0x"));
    if HOST_BYTES_MAX < labels.len() || !labels.split('.').all(is_label) || is_number {
        return Err(UrlProblem::Host);
    }
    Ok(Host::Name(name.to_ascii_lowercase()))
}

fn port_number(digits: &str) -> Result<u16, UrlProblem> {
    match u16::try_from(number(digits).ok_or(UrlProblem::Port)?) {
        Ok(0) | Err(_) => Err(UrlProblem::Port),
        Ok(port) => Ok(port),
    }
}

fn tcp_database(tail: &str) -> Result<u32, UrlProblem> {
    if tail.contains(['?', '#']) {
        return Err(UrlProblem::Query);
    }
    match tail.strip_prefix('/') {
        None | Some("") => Ok(0),
        Some(digits) => database(digits),
    }
}

fn unix_database(query: &str) -> Result<u32, UrlProblem> {
    if query.is_empty() {
        return Ok(0);
    }
    let digits = query.strip_prefix("?db=").ok_or(UrlProblem::Query)?;
    if digits.contains(['&', '#']) {
        return Err(UrlProblem::Query);
    }
    database(digits)
}

/// Servers count databases in a signed number of 32 bits.
fn database(digits: &str) -> Result<u32, UrlProblem> {
    number(digits)
        .filter(|number| *number <= i32::MAX.unsigned_abs())
        .ok_or(UrlProblem::Database)
}

/// Digits only: `parse` alone would take a plus sign too.
fn number(digits: &str) -> Option<u32> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

fn unix_path(encoded: &str) -> Result<String, UrlProblem> {
    let decoded = percent_decoded(encoded)?;
    let mut path = String::with_capacity(decoded.len());
    for part in decoded.split('/').filter(|part| !matches!(*part, "" | ".")) {
        path.push('/');
        path.push_str(part);
    }
    if path.is_empty() || UNIX_PATH_BYTES_MAX < path.len() || path.contains('\0') {
        return Err(UrlProblem::Path);
    }
    Ok(path)
}

fn percent_decoded(text: &str) -> Result<String, UrlProblem> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => 16 * hex_digit(bytes.next())? + hex_digit(bytes.next())?,
            byte => byte,
        });
    }
    String::from_utf8(decoded).map_err(|_| UrlProblem::Encoding)
}

fn hex_digit(byte: Option<u8>) -> Result<u8, UrlProblem> {
    let digit = byte
        .and_then(|byte| char::from(byte).to_digit(16))
        .ok_or(UrlProblem::Escape)?;
    u8::try_from(digit).map_err(|_| UrlProblem::Escape)
}
