//! Commands, as servers read them.

use alloc::vec;
use alloc::vec::Vec;
use std::format;

use super::*;

#[test]
fn commands_as_servers_read_them() {
    let mut out = Vec::new();
    let arguments: [&[u8]; 3] = [b"SET", b"", b"a\r\nb"];
    command(&mut out, &arguments);
    assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\na\r\nb\r\n");
    let strings = arguments.map(|word| argument_len(word.len()));
    assert_eq!(out.len(), "*3\r\n".len() + strings.iter().sum::<usize>());
}

/// Uses lengths and counts just below and above each point where a header gets longer.
#[test]
fn commands_of_all_lengths() {
    for length in [0, 1, 9, 10, 11, 99, 100, 101, 999, 1000, 12_345] {
        let text = vec![b'x'; length];
        let mut out = Vec::new();
        argument(&mut out, &text);
        let expected = [format!("${length}\r\n").as_bytes(), &text, b"\r\n"].concat();
        assert_eq!(out, expected);
        assert_eq!(out.len(), argument_len(length));

        let words = vec![&b"w"[..]; length];
        let mut out = Vec::new();
        command(&mut out, &words);
        let expected = format!("*{length}\r\n") + &"$1\r\nw\r\n".repeat(length);
        assert_eq!(out, expected.as_bytes());
    }
}
