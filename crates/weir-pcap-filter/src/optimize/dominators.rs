//! Which nodes and edges lie on every way to a node or edge.

use crate::graph::{Graph, Target};

/// A node, or one of its edges (`true`: the one for yes).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Element {
    Node(usize),
    Edge(usize, bool),
}

/// The tree of dominators of a graph, and its levels.
pub(super) struct Tree {
    root: Option<usize>,
    /// By element: see [`index`].
    parent: Vec<usize>,
    depth: Vec<u32>,
    /// An element further up, so that any is reached in steps whose number is the logarithm of the depth.
    jump: Vec<usize>,
    /// First child and next sibling, plus one; 0: none.
    child: Vec<usize>,
    sibling: Vec<usize>,
    /// When each element is entered and left on a walk through the tree.
    enter: Vec<u32>,
    leave: Vec<u32>,
    /// Elements in the order of the walk.
    walked: Vec<usize>,
    /// Nodes by the longest way from them to a leaf, from 1 on.
    levels: Vec<Vec<usize>>,
    /// Edges into each node, in the order in which libpcap lists them.
    edges_in: Vec<Vec<(usize, bool)>>,
}

const NONE: usize = usize::MAX;

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

impl Tree {
    pub(super) fn of(graph: &Graph) -> Tree {
        let count = 3 * graph.nodes.len();
        let levels = levels(graph);
        let mut edges_in = vec![Vec::new(); graph.nodes.len()];
        for level in levels.iter().rev() {
            for node in level {
                for (target, is_yes) in [(graph.nodes[*node].yes, true), (graph.nodes[*node].no, false)] {
                    if let Target::Node(to) = target {
                        edges_in[to].push((*node, is_yes));
                    }
                }
            }
        }
        edges_in.iter_mut().for_each(|edges| edges.reverse());
        let root = match graph.root {
            Target::Node(root) => Some(root),
            _ => None,
        };
        let mut tree = Tree {
            root,
            parent: vec![NONE; count],
            depth: vec![0; count],
            jump: (0..count).collect(),
            child: vec![0; count],
            sibling: vec![0; count],
            enter: vec![0; count],
            leave: vec![0; count],
            walked: Vec::new(),
            levels,
            edges_in,
        };
        tree.grow();
        tree.walk();
        tree
    }

    /// From the root on: a node hangs on what all edges into it have in common.
    fn grow(&mut self) {
        let order: Vec<usize> = self.levels.iter().rev().flatten().copied().collect();
        for node in order {
            let own = index(Element::Node(node));
            if Some(node) != self.root {
                let mut edges =
                    self.edges_in[node].iter().map(|(from, is_yes)| index(Element::Edge(*from, *is_yes)));
                let Some(first) = edges.next() else { continue };
                let common = edges.fold(first, |common, edge| self.common(common, edge));
                self.hang(own, common);
            }
            for is_yes in [true, false] {
                self.hang(index(Element::Edge(node, is_yes)), own);
            }
        }
    }

    fn hang(&mut self, own: usize, parent: usize) {
        self.parent[own] = parent;
        self.depth[own] = self.depth[parent] + 1;
        let (near, far) = (self.jump[parent], self.jump[self.jump[parent]]);
        let is_even = self.depth[parent] - self.depth[near] == self.depth[near] - self.depth[far];
        self.jump[own] = if is_even { far } else { parent };
        self.sibling[own] = self.child[parent];
        self.child[parent] = own + 1;
    }

    fn common(&self, mut left: usize, mut right: usize) -> usize {
        if self.depth[left] < self.depth[right] {
            std::mem::swap(&mut left, &mut right);
        }
        while self.depth[left] > self.depth[right] {
            let jump = self.jump[left];
            left = if self.depth[jump] >= self.depth[right] { jump } else { self.parent[left] };
        }
        while left != right {
            let (jump_left, jump_right) = (self.jump[left], self.jump[right]);
            (left, right) = match jump_left == jump_right {
                true => (self.parent[left], self.parent[right]),
                false => (jump_left, jump_right),
            };
        }
        left
    }

    fn walk(&mut self) {
        let Some(root) = self.root else { return };
        let mut time = 0;
        let mut stack = vec![(index(Element::Node(root)), false)];
        while let Some((at, is_done)) = stack.pop() {
            time += 1;
            if is_done {
                self.leave[at] = time;
                continue;
            }
            self.enter[at] = time;
            self.walked.push(at);
            stack.push((at, true));
            let mut child = self.child[at];
            while child != 0 {
                stack.push((child - 1, false));
                child = self.sibling[child - 1];
            }
        }
    }

    /// All edges, in the order of a walk through the tree.
    pub(super) fn edges(&self) -> impl Iterator<Item = Element> + '_ {
        self.walked.iter().map(|at| element(*at)).filter(|element| matches!(element, Element::Edge(..)))
    }

    /// When a walk through the tree comes to an element.
    pub(super) fn entered(&self, element: Element) -> u32 {
        self.enter[index(element)]
    }

    /// Whether every way to `below` goes through `above`, or they are the same.
    pub(super) fn is_above(&self, above: Element, below: Element) -> bool {
        let (above, below) = (index(above), index(below));
        self.enter[below] != 0
            && self.enter[above] <= self.enter[below]
            && self.leave[below] <= self.leave[above]
    }

    /// Whether every way to `node` goes through `by`.
    pub(super) fn dominates(&self, by: usize, node: usize) -> bool {
        self.is_above(Element::Node(by), Element::Node(node))
    }

    pub(super) fn levels(&self) -> &[Vec<usize>] {
        &self.levels
    }
}

/// Nodes by level; within one, those that a walk finishes last stand first.
fn levels(graph: &Graph) -> Vec<Vec<usize>> {
    let mut level = vec![0_usize; graph.nodes.len()];
    let mut levels: Vec<Vec<usize>> = Vec::new();
    let mut state = vec![0_u8; graph.nodes.len()];
    let mut stack = match graph.root {
        Target::Node(root) => vec![root],
        _ => Vec::new(),
    };
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
                    Target::Node(next) => level[next],
                    _ => 0,
                });
                level[node] = below.max().unwrap_or(0) + 1;
                if levels.len() < level[node] {
                    levels.resize(level[node], Vec::new());
                }
                levels[level[node] - 1].push(node);
            }
            _ => {}
        }
    }
    levels.iter_mut().for_each(|level| level.reverse());
    levels
}
