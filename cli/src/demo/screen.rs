//! The output of the demo: a terminal that is redrawn in place, or lines one after another.
//!
//! The terminal shows the alternate screen while the demo runs, so that its former contents come
//! back, whatever size the window has by then. Dropping the screen restores it, in a panic
//! too. Without a terminal no escape byte is ever written.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use super::frame;
use super::monitor::Snapshot;
use super::text::Line;

/// Alternate screen, no cursor, no wrapping of lines that a narrower window would cut.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const REST_OF_LINE: &str = "\x1b[K";
const REST_OF_SCREEN: &str = "\x1b[J";

/// How often a terminal is redrawn.
const FRAME: Duration = Duration::from_millis(100);

/// How often a line is written.
const SECOND: Duration = Duration::from_secs(1);

/// For terminals that do not report their size.
const USUAL_SIZE: (usize, usize) = (80, 24);

/// The output of the demo.
#[derive(Debug)]
pub(super) struct Screen {
    kind: Kind,
    /// When something is to be shown again.
    due: Duration,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Terminal { colours: bool, drawing: bool },
    Plain,
}

impl Screen {
    /// A screen on the standard output.
    pub(super) fn new() -> Self {
        let kind = match io::stdout().is_terminal()
            && env::var_os("TERM").is_none_or(|term| term != "dumb")
        {
            true => Kind::Terminal {
                colours: env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
                drawing: false,
            },
            false => Kind::Plain,
        };
        let due = match kind {
            Kind::Terminal { .. } => Duration::ZERO,
            Kind::Plain => SECOND,
        };
        Self { kind, due }
    }

    /// Shows `snapshot` if it is time to.
    pub(super) fn show(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        if snapshot.elapsed < self.due {
            return Ok(());
        }
        match &mut self.kind {
            Kind::Terminal { colours, drawing } => {
                self.due = snapshot.elapsed + FRAME;
                let begin = if *drawing { "" } else { ENTER };
                *drawing = true;
                let (width, height) = size();
                let lines = frame::frame(snapshot, width, height);
                write(&drawn(begin, &lines, (width, height), *colours))
            }
            Kind::Plain => {
                // Seconds that were missed get no line.
                self.due = Duration::from_secs(snapshot.elapsed.as_secs()) + SECOND;
                write(&format!("{}\n", frame::plain(snapshot)))
            }
        }
    }

    /// Returns how wide permanent lines should be at most.
    pub(super) fn width(&self) -> usize {
        match self.kind {
            Kind::Terminal { .. } => size().0.min(frame::WIDTH_MAX),
            Kind::Plain => frame::WIDTH_MAX,
        }
    }

    /// Writes permanent lines.
    pub(super) fn say(&mut self, lines: &[Line]) -> io::Result<()> {
        self.write_lines(lines, usize::MAX)
    }

    fn write_lines(&mut self, lines: &[Line], width: usize) -> io::Result<()> {
        self.leave()?;
        let mut text = String::new();
        for line in lines {
            match self.kind {
                Kind::Terminal { colours, .. } => text.push_str(&line.styled(width, colours)),
                Kind::Plain => text.push_str(line.bare().trim_end()),
            }
            text.push('\n');
        }
        write(&text)
    }

    /// Leaves the last picture on the screen, to be read afterwards.
    pub(super) fn keep(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        match self.kind {
            Kind::Terminal { .. } => {
                let (width, _) = size();
                self.write_lines(&frame::last(snapshot, width), width)
            }
            Kind::Plain => Ok(()),
        }
    }

    fn leave(&mut self) -> io::Result<()> {
        match &mut self.kind {
            Kind::Terminal { drawing, .. } => match std::mem::take(drawing) {
                true => write(LEAVE),
                false => Ok(()),
            },
            Kind::Plain => Ok(()),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If the terminal is gone, there is nothing to restore.
        let _ = self.leave();
    }
}

/// One write for a whole frame, so that it is not seen half drawn.
///
/// Each line is erased before it is written: behind one that is as wide as the terminal the cursor
/// stands *on* its last cell, which would be erased with the rest.
fn drawn(begin: &str, lines: &[Line], (width, height): (usize, usize), colours: bool) -> String {
    let text: Vec<String> = lines
        .iter()
        .map(|line| format!("{REST_OF_LINE}{}", line.styled(width, colours)))
        .collect();
    // No line end behind a frame that fills the window: it would scroll.
    let end = match lines.len() < height {
        true => format!("\r\n{REST_OF_SCREEN}"),
        false => String::new(),
    };
    format!("{begin}{HOME}{}{end}", text.join("\r\n"))
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Columns and rows of the terminal now. Asked for each frame: windows change.
fn size() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col != 0 && size.ws_row != 0 => {
            (usize::from(size.ws_col), usize::from(size.ws_row))
        }
        Ok(_) | Err(_) => USUAL_SIZE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::text::Style;

    #[test]
    fn a_frame_is_drawn_over_the_last_one_without_scrolling() {
        let lines = [Line::new().with(Style::Good, "abc"), Line::new().plain("d")];
        assert_eq!(
            drawn(ENTER, &lines, (2, 2), true),
            "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[H\x1b[K\x1b[32mab\x1b[0m\r\n\x1b[Kd"
        );
        assert_eq!(
            drawn("", &lines, (80, 3), false),
            "\x1b[H\x1b[Kabc\r\n\x1b[Kd\r\n\x1b[J"
        );
    }

    #[test]
    fn leaving_the_screen_undoes_entering_it() {
        for mode in ["?1049", "?25", "?7"] {
            let (on, off) = (format!("\x1b[{mode}h"), format!("\x1b[{mode}l"));
            assert!(ENTER.contains(&on) != ENTER.contains(&off));
            assert_eq!(ENTER.contains(&on), LEAVE.contains(&off));
        }
    }
}
