//! Lists of items by number, all in one piece of memory.

/// The list of each number below a count.
#[derive(Default)]
pub(super) struct Lists<T> {
    /// Where each list begins; after the last, where that ends, twice.
    starts: Vec<u32>,
    items: Vec<T>,
}

impl<T: Copy + Default> Lists<T> {
    /// See [`Lists::fill`].
    pub(super) fn of(count: usize, items: impl Iterator<Item = (usize, T)> + Clone) -> Lists<T> {
        let mut lists = Lists::default();
        lists.fill(count, items);
        lists
    }

    /// Replaces all lists. `items`: each with the number of its list. A list has its items in the order in which they come.
    pub(super) fn fill(&mut self, count: usize, items: impl Iterator<Item = (usize, T)> + Clone) {
        self.starts.clear();
        self.starts.resize(count + 2, 0);
        for (list, _) in items.clone() {
            self.starts[list + 2] += 1;
        }
        let mut end = 0;
        for start in &mut self.starts {
            end += *start;
            *start = end;
        }
        self.items.clear();
        self.items.resize(end as usize, T::default());
        // The place after a list's own is where its next item goes, and ends as where the list after it begins.
        for (list, item) in items {
            let next = &mut self.starts[list + 1];
            self.items[*next as usize] = item;
            *next += 1;
        }
    }

    pub(super) fn get(&self, list: usize) -> &[T] {
        &self.items[self.starts[list] as usize..self.starts[list + 1] as usize]
    }

    /// Changes every list.
    pub(super) fn each_mut(&mut self, mut change: impl FnMut(&mut [T])) {
        for ends in self.starts.windows(2) {
            change(&mut self.items[ends[0] as usize..ends[1] as usize]);
        }
    }

    /// The items of all lists, list by list.
    pub(super) fn items(&self) -> &[T] {
        &self.items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_keep_their_order_within_their_lists() {
        let items = [(2, 'a'), (0, 'b'), (2, 'c'), (0, 'd'), (2, 'e')];
        let lists = Lists::of(4, items.into_iter());
        let all: Vec<String> = (0..4).map(|list| lists.get(list).iter().collect()).collect();
        assert_eq!(all, ["bd", "", "ace", ""]);
        assert_eq!(lists.items(), ['b', 'd', 'a', 'c', 'e']);
        assert_eq!(Lists::of(2, std::iter::empty::<(usize, u8)>()).get(1), []);
    }
}
