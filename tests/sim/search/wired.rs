//! An engine of the search, with a connection to a store for each node.

use shearline::embedded::Memory;
use shearline::engine::{Engine, Event, Input, NodeId, Output};
use shearline::internals::resp::Inbox;
use shearline::internals::{LinkFault, Session, Store};
use shearline::{Config, Instant};

use super::node::{Words, run};
use crate::server::words_of;

/// The connection of an engine to one node.
pub(super) struct Link {
    pub(super) store: Store,
    session: Session,
    id: Option<NodeId>,
    commands: Box<Inbox>,
}

pub(super) struct Wired {
    pub(super) engine: Engine,
    pub(super) now: Instant,
    pub(super) links: Vec<Link>,
}

/// A user that sees what an engine sends and reports.
pub(super) trait User {
    /// Returns what the node answers at once to this command, if it does.
    fn send(&mut self, now: Instant, to: usize, link: &mut Link, words: Words) -> Option<Vec<u8>>;

    fn hear(&mut self, _now: Instant, _engine: &mut Engine, _event: Event) {}
}

impl Link {
    /// Runs a command in the session of the engine.
    pub(super) fn run(&mut self, now: Instant, words: &Words) -> Vec<u8> {
        run(&mut self.store, &mut self.session, now, words)
    }
}

impl Wired {
    pub(super) fn new(
        config: &Config,
        seed: u8,
        now: Instant,
        stores: impl Iterator<Item = Store>,
    ) -> Self {
        let link = |store: Store| Link {
            session: Store::session(),
            store,
            id: None,
            commands: Box::new(Inbox::default()),
        };
        Self {
            engine: Engine::new(config, [seed; 32], now),
            now,
            links: stores.map(link).collect(),
        }
    }

    /// Hands the answer of a node to the engine.
    pub(super) fn answer(&mut self, node: usize, bytes: &[u8]) {
        let node = self.links[node].id.expect("it is connected");
        let input = Input::Received { node, bytes };
        self.engine.handle(self.now, input);
    }

    /// Breaks the connection to a node.
    pub(super) fn cut(&mut self, node: usize) {
        if let Some(node) = self.links[node].id.take() {
            let reason = LinkFault::Reset.into();
            let input = Input::Disconnected { node, reason };
            self.engine.handle(self.now, input);
        }
    }

    /// Restarts a node without its data.
    pub(super) fn restart(&mut self, node: usize, seed: u64) {
        let store = &mut self.links[node].store;
        store.restart(seed, self.now, Memory::Lost);
    }

    /// Does what the engine asks for, until it asks for nothing more.
    pub(super) fn pump(&mut self, user: &mut impl User) {
        let now = self.now;
        self.engine.handle(now, Input::Tick);
        while let Some(output) = self.engine.poll(now) {
            match output {
                Output::Connect { node } => {
                    let link = &mut self.links[node.index()];
                    link.id = Some(node);
                    link.session = Store::session();
                    *link.commands = Inbox::default();
                    self.engine.handle(now, Input::Connected { node });
                }
                Output::Transmit { node, mut bytes } => {
                    let len = bytes.len();
                    let link = &mut self.links[node.index()];
                    let mut answers = Vec::new();
                    while let Ok(Some(frame)) = link.commands.next(&mut bytes) {
                        let words = words_of(&frame.value).into_iter();
                        answers.push(words.map(<[u8]>::to_vec).collect());
                    }
                    self.engine.handle(now, Input::Transmitted { node, len });
                    for words in answers {
                        if let Some(bytes) = user.send(now, node.index(), link, words) {
                            let bytes = &bytes[..];
                            self.engine.handle(now, Input::Received { node, bytes });
                        }
                    }
                }
                Output::Event(event) => user.hear(now, &mut self.engine, event),
                Output::Disconnect { .. } | Output::Probe { .. } | Output::CloseProbe { .. } => {}
            }
        }
    }
}
