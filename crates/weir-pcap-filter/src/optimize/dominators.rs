//! Which nodes and edges lie on every way to a node or edge.

use super::lists::Lists;
use crate::graph::{Graph, Target};

/// A node, or one of its edges (`true`: the one for yes).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Element {
    Node(usize),
    Edge(usize, bool),
}

/// The tree of dominators of a graph, and its levels. Elements are numbered as [`index`] says.
#[derive(Default)]
pub(super) struct Tree {
    root: Option<usize>,
    places: Vec<Place>,
    /// When each element is entered and left on a walk through the tree.
    times: Vec<Times>,
    /// Elements in the order of the walk.
    walked: Vec<u32>,
    levels: Levels,
    /// Edges into each node, in the order in which libpcap lists them.
    edges_in: Lists<(u32, bool)>,
}

/// Nodes that are reached, by the longest way from them to a leaf: those with the shortest one first.
#[derive(Default)]
pub(super) struct Levels {
    /// Within a level, those that a walk finishes last stand first.
    last_first: Lists<u32>,
    /// Within a level, those that a walk finishes first stand first.
    first_first: Lists<u32>,
    finished: Vec<u32>,
    level: Vec<u32>,
    state: Vec<u8>,
    stack: Vec<usize>,
}

/// Where an element is in the tree.
#[derive(Clone, Copy)]
struct Place {
    parent: u32,
    depth: u32,
    /// An element further up, so that any is reached in steps whose number is the logarithm of the depth.
    jump: u32,
    /// First child and next sibling, plus one; 0: none.
    child: u32,
    sibling: u32,
}

/// A span of a walk through the tree.
#[derive(Clone, Copy, Default)]
pub(super) struct Times {
    pub(super) enter: u32,
    leave: u32,
}

impl Times {
    /// Whether every way to `below` goes through this element, or they are the same.
    pub(super) fn is_above(self, below: Times) -> bool {
        below.enter != 0 && self.enter <= below.enter && below.leave <= self.leave
    }
}

fn index(element: Element) -> usize {
    match element {
        Element::Node(node) => 3 * node,
        Element::Edge(node, is_yes) => 3 * node + 1 + usize::from(!is_yes),
    }
}

fn element(index: usize) -> Element {
    match index % 3 {
        0 => Element::Node(index / 3),
        side => Element::Edge(index / 3, side == 1),
    }
}

/// Edges into each node, as they are now.
pub(super) fn edges_in(graph: &Graph, tree: &Tree, into: &mut Lists<(u32, bool)>) {
    fill_edges(graph, &tree.levels, into);
}

fn fill_edges(graph: &Graph, levels: &Levels, into: &mut Lists<(u32, bool)>) {
    let edges = levels.first_first.items().iter().flat_map(|node| {
        let of = &graph.nodes[*node as usize];
        [(of.no, false), (of.yes, true)].into_iter().filter_map(|(target, is_yes)| match target {
            Target::Node(to) => Some((to, (*node, is_yes))),
            _ => None,
        })
    });
    into.fill(graph.nodes.len(), edges);
}

impl Tree {
    /// Becomes the tree of `graph`.
    pub(super) fn rebuild(&mut self, graph: &Graph) {
        let count = 3 * graph.nodes.len();
        self.levels.rebuild(graph);
        fill_edges(graph, &self.levels, &mut self.edges_in);
        self.root = match graph.root {
            Target::Node(root) => Some(root),
            _ => None,
        };
        let place = |own| Place { parent: u32::MAX, depth: 0, jump: own, child: 0, sibling: 0 };
        self.places.clear();
        self.places.extend((0..count as u32).map(place));
        self.times.clear();
        self.times.resize(count, Times::default());
        self.walked.clear();
        self.grow();
        self.walk();
    }

    /// From the root on: a node hangs on what all edges into it have in common.
    fn grow(&mut self) {
        let places = &mut self.places;
        for node in self.levels.last_first.items().iter().rev() {
            let node = *node as usize;
            let own = index(Element::Node(node));
            if Some(node) != self.root {
                let edges = self.edges_in.get(node).iter();
                let mut edges = edges.map(|(from, is_yes)| index(Element::Edge(*from as usize, *is_yes)));
                let Some(first) = edges.next() else { continue };
                let common = edges.fold(first, |found, edge| common(places, found, edge));
                hang(places, own, common);
            }
            for is_yes in [true, false] {
                hang(places, index(Element::Edge(node, is_yes)), own);
            }
        }
    }

    fn walk(&mut self) {
        let Some(root) = self.root else { return };
        let mut time = 0;
        let mut at = index(Element::Node(root));
        let top = at;
        loop {
            time += 1;
            self.times[at].enter = time;
            self.walked.push(at as u32);
            let mut child = self.places[at].child;
            while child == 0 {
                time += 1;
                self.times[at].leave = time;
                if at == top {
                    return;
                }
                child = self.places[at].sibling;
                if child == 0 {
                    at = self.places[at].parent as usize;
                }
            }
            at = child as usize - 1;
        }
    }

    /// All edges, in the order of a walk through the tree.
    pub(super) fn edges(&self) -> impl Iterator<Item = Element> + '_ {
        let elements = self.walked.iter().map(|at| element(*at as usize));
        elements.filter(|element| matches!(element, Element::Edge(..)))
    }

    /// When a walk through the tree is at an element.
    pub(super) fn times(&self, element: Element) -> Times {
        self.times[index(element)]
    }

    /// Whether every way to `node` goes through `by`.
    pub(super) fn dominates(&self, by: usize, node: usize) -> bool {
        self.times(Element::Node(by)).is_above(self.times(Element::Node(node)))
    }

    /// Whether an edge lies on every way to something else.
    pub(super) fn has_below(&self, edge: Element) -> bool {
        self.places[index(edge)].child != 0
    }

    /// Nodes that are reached, those near leaves first; of those at one distance, those that a walk finishes last.
    pub(super) fn nodes(&self) -> impl Iterator<Item = usize> + '_ {
        self.levels.last_first.items().iter().map(|node| *node as usize)
    }
}

fn hang(places: &mut [Place], own: usize, parent: usize) {
    let Place { depth, jump: near, child, .. } = places[parent];
    let far = places[near as usize].jump;
    let is_even =
        depth - places[near as usize].depth == places[near as usize].depth - places[far as usize].depth;
    places[own] = Place {
        parent: parent as u32,
        depth: depth + 1,
        jump: if is_even { far } else { parent as u32 },
        child: 0,
        sibling: child,
    };
    places[parent].child = own as u32 + 1;
}

/// What the ways to two elements have in common, next to them.
fn common(places: &[Place], left: usize, right: usize) -> usize {
    let at = |index: u32| &places[index as usize];
    let (mut left, mut right) = (left as u32, right as u32);
    if at(left).depth < at(right).depth {
        std::mem::swap(&mut left, &mut right);
    }
    while at(left).depth > at(right).depth {
        let jump = at(left).jump;
        left = if at(jump).depth >= at(right).depth { jump } else { at(left).parent };
    }
    while left != right {
        let (jump_left, jump_right) = (at(left).jump, at(right).jump);
        (left, right) = match jump_left == jump_right {
            true => (at(left).parent, at(right).parent),
            false => (jump_left, jump_right),
        };
    }
    left as usize
}

impl Levels {
    fn rebuild(&mut self, graph: &Graph) {
        let Levels { last_first, first_first, finished, level, state, stack } = self;
        finished.clear();
        level.clear();
        level.resize(graph.nodes.len(), 0);
        state.clear();
        state.resize(graph.nodes.len(), 0);
        if let Target::Node(root) = graph.root {
            stack.push(root);
        }
        let mut count = 0;
        while let Some(node) = stack.pop() {
            let targets = [graph.nodes[node].yes, graph.nodes[node].no];
            match state[node] {
                0 => {
                    state[node] = 1;
                    stack.push(node);
                    for target in targets.into_iter().rev() {
                        if let Target::Node(next) = target
                            && state[next] == 0
                        {
                            stack.push(next);
                        }
                    }
                }
                1 => {
                    state[node] = 2;
                    let below = targets.into_iter().map(|target| match target {
                        Target::Node(next) => level[next] + 1,
                        _ => 0,
                    });
                    level[node] = below.max().unwrap_or(0);
                    count = count.max(level[node] + 1);
                    finished.push(node as u32);
                }
                _ => {}
            }
        }
        let leveled = |node: &u32| (level[*node as usize] as usize, *node);
        last_first.fill(count as usize, finished.iter().rev().map(leveled));
        first_first.fill(count as usize, finished.iter().map(leveled));
    }
}
