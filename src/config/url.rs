//! Parses the text of a node's URL into a [`NodeConfig`].
//!
//! Parsing any text returns a node or a [`ConfigError`], which never contains a part of the text. [`NodeConfig`]
//! documents the grammar. The grammar is stricter than the grammar of general URLs, so that a mistake in a password
//! cannot become a host.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use super::node::{Address, Credentials, Host, NodeConfig};
#[cfg(feature = "tls")]
use super::tls::{Identity, NodeTls, Pem};
use crate::error::{ConfigError, ConfigFault, UrlFault};
use crate::limits::{CREDENTIAL_BYTES_MAX, HOST_BYTES_MAX, UNIX_PATH_BYTES_MAX};

const PORT_DEFAULT: u16 = 6379;

enum Scheme {
    Tcp,
    Tls,
    Unix,
}

impl FromStr for NodeConfig {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let index = None;
        Ok(parse(text).map_err(|fault| ConfigFault::Url { index, fault })?)
    }
}

pub(super) fn parse(text: &str) -> Result<NodeConfig, UrlFault> {
    if text.is_empty() {
        return Err(UrlFault::Empty);
    }
    if text
        .chars()
        .any(|letter| letter.is_control() || letter.is_whitespace())
    {
        return Err(UrlFault::Character);
    }
    let (scheme, rest) = split_scheme(text)?;
    let (userinfo, place, tail) = split_authority(rest)?;
    let credentials = userinfo.map(credentials).transpose()?.flatten();
    match scheme {
        Scheme::Tcp => {
            let address = tcp_address(place)?;
            Ok(NodeConfig::new(address, credentials, tcp_database(tail)?))
        }
        #[cfg(not(feature = "tls"))]
        Scheme::Tls => Err(UrlFault::Tls),
        #[cfg(feature = "tls")]
        Scheme::Tls => {
            let address = tcp_address(place)?;
            let (path, query) = tail.split_at(tail.find(['?', '#']).unwrap_or(tail.len()));
            let node = NodeConfig::new(address, credentials, tcp_database(path)?);
            Ok(node.with_tls(tls_query(query)?))
        }
        // A unix socket is on this machine, so a URL with a host is refused.
        Scheme::Unix if !place.is_empty() => Err(UrlFault::Path),
        Scheme::Unix => {
            let (path, query) = tail.split_at(tail.find(['?', '#']).unwrap_or(tail.len()));
            let address = Address::Unix {
                path: unix_path(path)?,
            };
            Ok(NodeConfig::new(address, credentials, unix_database(query)?))
        }
    }
}

/// Returns the scheme and the text after its slashes. For `unix:/path`, which has no authority, returns `/path`.
fn split_scheme(text: &str) -> Result<(Scheme, &str), UrlFault> {
    if let Some((scheme, path)) = text.split_at_checked("unix:".len())
        && scheme.eq_ignore_ascii_case("unix:")
        && path.starts_with('/')
        && !path.starts_with("//")
    {
        return Ok((Scheme::Unix, path));
    }
    match (text.split_once("://"), text.split_once("//")) {
        (Some((scheme, rest)), _) => Ok((scheme_of(scheme).ok_or(UrlFault::Scheme)?, rest)),
        (None, Some((scheme, _))) if scheme_of(scheme).is_some() => Err(UrlFault::Colon),
        (None, _) => Ok((Scheme::Tcp, text)),
    }
}

fn scheme_of(name: &str) -> Option<Scheme> {
    let is = |scheme| name.eq_ignore_ascii_case(scheme);
    match () {
        () if is("redis") || is("valkey") => Some(Scheme::Tcp),
        () if is("unix") => Some(Scheme::Unix),
        () if is("rediss") || is("valkeys") => Some(Scheme::Tls),
        () => None,
    }
}

/// Returns the credentials, the host with the port, and the rest, which begins with `/`, `?` or `#`.
///
/// If the rest contains an `@`, a password was not escaped. Without this check, a part of the password would become a
/// path or a database number, and the address would show it.
fn split_authority(rest: &str) -> Result<(Option<&str>, &str, &str), UrlFault> {
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if tail.contains('@') {
        return Err(UrlFault::Credentials);
    }
    Ok(match authority.rsplit_once('@') {
        Some((userinfo, place)) => (Some(userinfo), place, tail),
        None => (None, authority, tail),
    })
}

/// Parses `user`, `user:password` or `:password`. If both are empty, as in a template with empty variables, the handle
/// does not log in.
fn credentials(userinfo: &str) -> Result<Option<Credentials>, UrlFault> {
    let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
    let user = credential(user)?;
    let password = credential(password)?;
    if user.is_empty() && password.is_empty() {
        return Ok(None);
    }
    let user = if user.is_empty() { None } else { Some(user) };
    Ok(Some(Credentials { user, password }))
}

fn credential(text: &str) -> Result<String, UrlFault> {
    let decoded = percent_decoded(text)?;
    if decoded.len() > CREDENTIAL_BYTES_MAX {
        return Err(UrlFault::CredentialsTooLong);
    }
    Ok(decoded)
}

fn tcp_address(place: &str) -> Result<Address, UrlFault> {
    if let Some(bracketed) = place.strip_prefix('[') {
        let (ip, after) = bracketed.split_once(']').ok_or(UrlFault::Host)?;
        let ip: Ipv6Addr = ip.parse().map_err(|_| UrlFault::Host)?;
        let port = match after.strip_prefix(':') {
            Some(port) => port_number(port)?,
            None if after.is_empty() => PORT_DEFAULT,
            None => return Err(UrlFault::Port),
        };
        return Ok(Address::Tcp {
            host: Host::Ip(ip.to_canonical()),
            port,
        });
    }
    let (name, port) = match place.split_once(':') {
        // In an IPv6 address without brackets, it is unclear where the port begins.
        Some((_, port)) if port.contains(':') => return Err(UrlFault::Host),
        Some((name, port)) => (name, Some(port)),
        None => (place, None),
    };
    let host = host(name)?;
    let port = port.map_or(Ok(PORT_DEFAULT), port_number)?;
    Ok(Address::Tcp { host, port })
}

fn host(name: &str) -> Result<Host, UrlFault> {
    if let Ok(ip) = name.parse::<Ipv4Addr>() {
        return Ok(Host::Ip(IpAddr::V4(ip)));
    }
    // A name may end with a dot, which marks it as fully qualified.
    let labels = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| {
        let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=63).contains(&label.len()) && label.bytes().all(is_legal)
    };
    if HOST_BYTES_MAX < labels.len()
        || !labels.split('.').all(is_label)
        || labels.rsplit('.').next().is_some_and(is_number)
    {
        return Err(UrlFault::Host);
    }
    Ok(Host::Name(name.to_ascii_lowercase()))
}

/// Returns `true` if resolvers read a name that ends with the label `last` as an IP address, such as `127.1`,
/// `010.0.0.1` or `0x7f.1`. Resolvers disagree about the meaning of such addresses.
fn is_number(last: &str) -> bool {
    match last.get(..2) {
        Some("0x" | "0X") => last.bytes().skip(2).all(|byte| byte.is_ascii_hexdigit()),
        Some(_) | None => last.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

fn port_number(digits: &str) -> Result<u16, UrlFault> {
    match u16::try_from(number(digits).ok_or(UrlFault::Port)?) {
        Ok(0) | Err(_) => Err(UrlFault::Port),
        Ok(port) => Ok(port),
    }
}

fn tcp_database(tail: &str) -> Result<u32, UrlFault> {
    if tail.contains(['?', '#']) {
        return Err(UrlFault::Query);
    }
    match tail.strip_prefix('/') {
        None | Some("") => Ok(0),
        Some(digits) => database(digits),
    }
}

/// Parses `?ca=..&cert=..&key=..&name=..`, with each parameter at most once and in any order.
#[cfg(feature = "tls")]
fn tls_query(query: &str) -> Result<NodeTls, UrlFault> {
    let Some(pairs) = query.strip_prefix('?') else {
        return match query {
            "" => Ok(NodeTls::default()),
            _ => Err(UrlFault::Query),
        };
    };
    let [mut ca, mut certificate, mut key, mut name] = [const { None }; 4];
    for pair in pairs.split('&') {
        let (word, value) = pair.split_once('=').ok_or(UrlFault::Query)?;
        let place = match word {
            "ca" => &mut ca,
            "cert" => &mut certificate,
            "key" => &mut key,
            "name" => &mut name,
            _ => return Err(UrlFault::Query),
        };
        if value.contains('#') || place.replace(file(value)?).is_some() {
            return Err(UrlFault::Query);
        }
    }
    let identity = match (certificate, key) {
        (Some(certificate), Some(key)) => Some(Identity {
            certificate: Pem::File(certificate),
            key: Pem::File(key),
        }),
        (None, None) => None,
        _ => return Err(UrlFault::Identity),
    };
    Ok(NodeTls {
        authorities: ca.map(Pem::File),
        identity,
        name,
    })
}

/// Returns the parameter's value, which is a path or a name and must not be empty.
#[cfg(feature = "tls")]
fn file(value: &str) -> Result<String, UrlFault> {
    match percent_decoded(value)? {
        text if text.is_empty() || text.contains('\0') => Err(UrlFault::Query),
        text => Ok(text),
    }
}

fn unix_database(query: &str) -> Result<u32, UrlFault> {
    if query.is_empty() {
        return Ok(0);
    }
    let digits = query.strip_prefix("?db=").ok_or(UrlFault::Query)?;
    if digits.contains(['&', '#']) {
        return Err(UrlFault::Query);
    }
    database(digits)
}

/// Returns the number of a database, which servers store as a signed 32-bit number.
fn database(digits: &str) -> Result<u32, UrlFault> {
    number(digits)
        .filter(|number| *number <= i32::MAX.unsigned_abs())
        .ok_or(UrlFault::Database)
}

/// Parses only digits, because `parse` would also accept a plus sign.
fn number(digits: &str) -> Option<u32> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

fn unix_path(encoded: &str) -> Result<String, UrlFault> {
    let decoded = percent_decoded(encoded)?;
    let mut path = String::with_capacity(decoded.len());
    for part in decoded.split('/').filter(|part| !matches!(*part, "" | ".")) {
        path.push('/');
        path.push_str(part);
    }
    if path.is_empty() || UNIX_PATH_BYTES_MAX < path.len() || path.contains('\0') {
        return Err(UrlFault::Path);
    }
    Ok(path)
}

fn percent_decoded(text: &str) -> Result<String, UrlFault> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => 16 * hex_digit(bytes.next())? + hex_digit(bytes.next())?,
            byte => byte,
        });
    }
    String::from_utf8(decoded).map_err(|_| UrlFault::Encoding)
}

fn hex_digit(byte: Option<u8>) -> Result<u8, UrlFault> {
    let digit = byte
        .and_then(|byte| char::from(byte).to_digit(16))
        .ok_or(UrlFault::Escape)?;
    u8::try_from(digit).map_err(|_| UrlFault::Escape)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString;
    use proptest::prelude::*;

    /// A node: label, user, password, database.
    type Node<'a> = (&'a str, Option<&'a str>, Option<&'a str>, u32);

    fn described(node: &NodeConfig) -> Node<'_> {
        (node.label(), node.user(), node.password(), node.database())
    }

    fn parsed(text: &str) -> NodeConfig {
        parse(text).unwrap_or_else(|problem| panic!("{text}: {problem:?}"))
    }

    #[test]
    fn good_urls() {
        for (text, label, database) in [
            ("redis://10.0.0.1", "10.0.0.1:6379", 0),
            ("redis://10.0.0.1:7000", "10.0.0.1:7000", 0),
            ("redis://10.0.0.1:7000/", "10.0.0.1:7000", 0),
            ("redis://10.0.0.1:7000/5", "10.0.0.1:7000", 5),
            ("redis://h/2147483647", "h:6379", 2_147_483_647),
            ("REDIS://DB-1.Example_x.ORG", "db-1.example_x.org:6379", 0),
            ("valkey://a", "a:6379", 0),
            ("a", "a:6379", 0),
            ("a.", "a.:6379", 0),
            ("a:1", "a:1", 0),
            ("a:65535/1", "a:65535", 1),
            ("a:06379", "a:6379", 0),
            ("1.example", "1.example:6379", 0),
            ("127.0.0.0x7g", "127.0.0.0x7g:6379", 0),
            ("[::1]", "[::1]:6379", 0),
            ("[::1]:6380", "[::1]:6380", 0),
            ("redis://[2001:DB8:0:0::5]:1/2", "[2001:db8::5]:1", 2),
            ("[::ffff:10.0.0.1]:7", "10.0.0.1:7", 0),
            ("unix:///run/r.sock", "unix:/run/r.sock", 0),
            ("unix:/run/r.sock", "unix:/run/r.sock", 0),
            ("Unix:////run/./r.sock/?db=3", "unix:/run/r.sock", 3),
            (
                "unix:///a%20%3F%25%40\u{e9}",
                "unix:/a%20%3F%25%40\u{e9}",
                0,
            ),
            ("unix:///a%23%0a%7F%c2%85b", "unix:/a%23%0A%7F%C2%85b", 0),
        ] {
            let node = parsed(text);
            assert_eq!(described(&node), (label, None, None, database), "{text}");
        }
    }

    #[test]
    fn good_urls_with_credentials() {
        for (credentials, user, password) in [
            ("u:p", Some("u"), Some("p")),
            (":p", None, Some("p")),
            ("u", Some("u"), Some("")),
            ("u:", Some("u"), Some("")),
            ("default:p", Some("default"), Some("p")),
            (":", None, None),
            ("", None, None),
            ("u:p@ss", Some("u"), Some("p@ss")),
            ("u:a:b:", Some("u"), Some("a:b:")),
            ("u:[::1]", Some("u"), Some("[::1]")),
            ("u%3a%40:%2f%0D%0a%00", Some("u:@"), Some("/\r\n\0")),
            ("u:\u{e9}%C3%A9+", Some("u"), Some("\u{e9}\u{e9}+")),
        ] {
            let node = parsed(&format!("redis://{credentials}@h"));
            let expected = ("h:6379", user, password, 0);
            assert_eq!(described(&node), expected, "{credentials}");
        }
        for (text, label, database) in [
            ("redis://u:p@[::1]:1/2", "[::1]:1", 2),
            ("u:p@h:1", "h:1", 0),
            ("unix://u:p@/r?db=1", "unix:/r", 1),
        ] {
            let expected = (label, Some("u"), Some("p"), database);
            assert_eq!(described(&parsed(text)), expected, "{text}");
        }
    }

    #[cfg(feature = "tls")]
    #[test]
    fn good_urls_of_tls() {
        for plain in ["redis://h", "h", "valkey://u:p@h", "unix:///r"] {
            assert!(!parsed(plain).uses_tls(), "{plain}");
        }
        for text in ["rediss://h", "VALKEYS://h:6379/", "rediss://h/0"] {
            let node = parsed(text);
            assert_eq!(described(&node), ("h:6379", None, None, 0), "{text}");
            assert!(node.tls() == Some(&NodeTls::default()), "{text}");
        }
        let node = parsed("rediss://u:p@h:7/2?name=db.example&key=/k%20%40&ca=/c.pem&cert=./e");
        assert_eq!(described(&node), ("h:7", Some("u"), Some("p"), 2));
        let expected = NodeTls {
            authorities: Some(Pem::File("/c.pem".into())),
            identity: Some(Identity {
                certificate: Pem::File("./e".into()),
                key: Pem::File("/k @".into()),
            }),
            name: Some("db.example".into()),
        };
        assert!(node.tls() == Some(&expected));
    }

    /// Each entry has a fault and the texts with this fault, separated by `|`.
    #[test]
    fn bad_urls() {
        for row in [
            "Empty: ",
            "Character:  |h | h|two words|h\n|h\r\nFLUSHALL|h\u{a0}|\u{7f}|h\0",
            "Character: redis://u:p\0@h|redis://u:p\u{85}@h|unix:///a b",
            "Scheme: http://h|://h|redis2://h|redis+unix:///r|u:p://w@h",
            "Colon: redis//h|REDISS//u:p@h:1/2|valkey//h|valkeys//h|unix///r",
            #[cfg(not(feature = "tls"))]
            "Tls: rediss://h|valkeys://h|Rediss://u:p@h:1/x",
            #[cfg(feature = "tls")]
            "Database: rediss://h/x|valkeys://h/-1?ca=a",
            #[cfg(feature = "tls")]
            "Identity: rediss://h?cert=a|rediss://h/1?key=b&ca=c",
            #[cfg(feature = "tls")]
            "Query: rediss://h?|rediss://h?db=1|rediss://h?ca=|rediss://h?ca=a&ca=b|rediss://h?ca",
            #[cfg(feature = "tls")]
            "Query: rediss://h?ca=a&|rediss://h#a|rediss://h?ca=a#b|rediss://h?ca=%00|redis://h?ca=a",
            #[cfg(feature = "tls")]
            "Credentials: rediss://u:a/b@h|rediss://h?ca=a@b",
            "Host: redis://|redis://:6379|redis:///0|redis://u:p@|:1|/|@|=|.",
            "Host: a..b|.a|a*|h%61|b\u{fc}cher|redis://h]|[::1|[]|[10.0.0.1]|[h]",
            "Host: ::1|fe80::1:6379|a:1:2|[::1%25lo]|[fe80::1%lo]",
            "Host: 6379|127.1|10.0.0.256|010.0.0.1|10.0.0.1.|0x7f.1|127.0.0.0x1|0x",
            "Port: h:|h:0|h:65536|h:-1|h:+1|h:x|h:1x|h:99999999999",
            "Port: [::1]6379|[::1]:|[::1]]:1|redis://user:secret|redis:h|http:/x|unix:r",
            "Path: unix://|unix:///|unix:/|unix:///.|unix://h/r|unix://r|unix:///a%00",
            "Database: h/x|h/-1|h/+1|h/1/|h//1|h/2147483648|h/99999999999|h/1%30|h/1x",
            "Database: unix:///r?db=|unix:///r?db=x|unix:///r?db=-1",
            "Credentials: redis://u:a/b@h|redis://u:1/2@h|redis://u:a?b@h",
            "Credentials: redis://u:a#b@h|redis://h/0@h",
            "Credentials: unix:///a@b|unix://u:/p@/r|unix:///r?db=1@",
            "Escape: redis://u:%@h|redis://u:%4@h|redis://u:%zz@h|redis://%-1:p@h",
            "Escape: redis://u:%\u{e9}@h|redis://u:%+1@h|unix:/%",
            "Encoding: redis://u:%ff@h|redis://%C3:%A9@h|unix:///%80",
            "Query: h?|h?db=1|h/1?db=1|h#|h/1#top|unix:///r?|unix:///r?x=1",
            "Query: unix:///r?DB=1|unix:///r#a|unix:///r?db=1&db=2|unix:///r?db=1#a",
        ] {
            let (fault, texts) = row.split_once(": ").unwrap();
            for text in texts.split('|') {
                assert_eq!(
                    format!("{:?}", parse(text).err()),
                    format!("Some({fault})"),
                    "{text:?}"
                );
            }
        }
    }

    /// Checks the longest texts that are accepted, and texts that are one byte longer.
    #[test]
    fn lengths() {
        let letters = |count| "x".repeat(count);
        let label = letters(63);
        let name = format!("{label}.{label}.{label}.{}", letters(61));
        assert_eq!(name.len(), HOST_BYTES_MAX);
        let (path, password) = (
            letters(UNIX_PATH_BYTES_MAX - 1),
            letters(CREDENTIAL_BYTES_MAX),
        );
        for (fits, problem) in [
            (label.as_str(), UrlFault::Host),
            (&name, UrlFault::Host),
            (&format!("unix:///{path}"), UrlFault::Path),
        ] {
            assert!(parse(fits).is_ok(), "{fits}");
            assert_eq!(parse(&format!("{fits}x")).err(), Some(problem), "{fits}");
        }
        for credentials in [format!("u:{password}"), format!(":{password}"), password] {
            assert!(parse(&format!("redis://{credentials}@h")).is_ok());
            let longer = parse(&format!("redis://{credentials}x@h"));
            assert_eq!(longer.err(), Some(UrlFault::CredentialsTooLong));
        }
    }

    fn escaped(text: &str) -> String {
        text.bytes().map(|byte| format!("%{byte:02x}")).collect()
    }

    /// Generates texts that are, or nearly are, URLs.
    fn url_like() -> impl Strategy<Value = String> {
        let scheme = "(redis://|valkey://|unix://|unix:/|UNIX:|)";
        let rest = r"[a-c0-2:/@%?#=.&\[\]x-]{0,24}";
        (scheme, rest).prop_map(|(scheme, rest)| scheme + &rest)
    }

    proptest! {
        /// Parsing never panics, and the label of a node parses to the same address.
        #[test]
        fn labels_parse_to_the_same_address(text in prop_oneof![url_like(), any::<String>()]) {
            if let Ok(node) = parse(&text) {
                prop_assert!(node.user().is_none() || node.password().is_some());
                prop_assert_eq!(&node.address().to_string(), &**node.label());
                let again = parse(node.label());
                prop_assert!(again.is_ok(), "{} {:?}", node.label(), again);
                let again = again.unwrap();
                prop_assert_eq!(again.address(), node.address());
                prop_assert_eq!(described(&again), (&**node.label(), None, None, 0));
            }
        }

        /// Escaped parts are decoded to the original text.
        #[test]
        fn escaped_parts_come_back(user: String, password: String, path: String) {
            let userinfo = format!("{}:{}", escaped(&user), escaped(&password));
            let node = parse(&format!("redis://{userinfo}@h/7")).unwrap();
            prop_assert_eq!(node.user().unwrap_or_default(), &user);
            prop_assert_eq!(node.password().unwrap_or_default(), &password);
            prop_assert_eq!(node.database(), 7);
            let path: String = path.chars().filter(|c| !matches!(c, '/' | '\0')).take(24).collect();
            let node = parse(&format!("unix:///x{}", escaped(&path))).unwrap();
            prop_assert_eq!(node.address(), &Address::Unix { path: format!("/x{path}") });
        }
    }
}
