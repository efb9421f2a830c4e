//! Interned values: values that are equal on thousands of objects are stored once.

use std::any::{Any, TypeId};
use std::borrow::Borrow;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::ops::Deref;
use std::sync::Arc;

use foldhash::fast::RandomState;
use serde::{Deserialize, Deserializer};

/// Number of values at which unused values are dropped for the first time.
const FIRST_SWEEP: usize = 1 << 14;

/// Stores equal values once.
pub(super) struct Interner<T: ?Sized> {
    all: HashSet<Arc<T>, RandomState>,
    sweep_at: usize,
}

impl<T: ?Sized> Default for Interner<T> {
    fn default() -> Interner<T> {
        Interner { all: HashSet::default(), sweep_at: FIRST_SWEEP }
    }
}

impl<T: ?Sized + Hash + Eq> Interner<T> {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the stored value that is equal to `value`. If there is none, stores the result of `make`.
    pub fn find<V: Borrow<T>>(&mut self, value: V, make: impl FnOnce(V) -> Arc<T>) -> Arc<T> {
        if let Some(known) = self.all.get(value.borrow()) {
            return Arc::clone(known);
        }
        if self.all.len() >= self.sweep_at {
            self.all.retain(|value| Arc::strong_count(value) > 1);
            self.sweep_at = (2 * self.all.len()).max(FIRST_SWEEP);
        }
        let new = make(value);
        self.all.insert(Arc::clone(&new));
        new
    }
}

thread_local! {
    /// The interner of each type.
    static INTERNERS: RefCell<HashMap<TypeId, Box<dyn Any>>> = RefCell::default();
}

/// A value that shares its memory with equal values read on the same thread.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Shared<T>(Arc<T>);

impl<T: Hash + Eq + 'static> From<T> for Shared<T> {
    fn from(value: T) -> Shared<T> {
        INTERNERS.with_borrow_mut(|interners| {
            let interner =
                interners.entry(TypeId::of::<T>()).or_insert_with(|| Box::new(Interner::<T>::default()));
            let interner: &mut Interner<T> = interner.downcast_mut().expect("the map is keyed by type");
            Shared(interner.find(value, Arc::new))
        })
    }
}

impl<T: Hash + Eq + Clone + 'static> Shared<T> {
    /// Changes this value; equal values elsewhere are not affected.
    pub fn change(&mut self, change: impl FnOnce(&mut T)) {
        let mut value = T::clone(self);
        change(&mut value);
        *self = value.into();
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Default + Hash + Eq + 'static> Default for Shared<T> {
    fn default() -> Shared<T> {
        T::default().into()
    }
}

impl<'de, T: Deserialize<'de> + Hash + Eq + 'static> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Shared<T>, D::Error> {
        T::deserialize(deserializer).map(Shared::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_their_memory_until_one_is_changed() {
        let [one, mut two] = [Shared::from(vec![1, 2]), Shared::from(vec![1, 2])];
        assert!(Arc::ptr_eq(&one.0, &two.0));
        two.change(|list| list.push(3));
        assert_eq!((&*one, &*two), (&vec![1, 2], &vec![1, 2, 3]));
    }

    #[test]
    fn unused_values_are_dropped() {
        let mut words: Interner<str> = Interner::default();
        let held = words.find("held", |word| word.into());
        for number in 0..3 * FIRST_SWEEP {
            words.find(format!("word {number}").as_str(), |word| word.into());
        }
        assert!(words.all.len() <= FIRST_SWEEP, "{}", words.all.len());
        assert!(Arc::ptr_eq(&held, &words.find("held", |word| word.into())));
    }
}
