//! SELECT, from the rows found to the rows given.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::Run;
use super::scan::Joined;
use crate::error::{SqlError, SqlResult};
use crate::evaluate::{Environment, Evaluated, Frame, add};
use crate::heap::Row;
use crate::plan::{Aggregate, Node, Reads, Select, Sort};
use crate::session::Session;
use crate::state::row_bytes;
use crate::value::Value;

/// What a row of the result is computed from.
struct Basis {
    joined: Joined,
    group: Vec<Value>,
    aggregates: Vec<Value>,
}

impl Basis {
    fn frame<'a>(&'a self, run: &'a Run) -> Frame<'a> {
        let mut frame = run.frame(&self.joined.row);
        frame.group = &self.group;
        frame.aggregates = &self.aggregates;
        frame
    }
}

/// The order of two keys.
fn order(sorts: &[Sort], left: &[Value], right: &[Value]) -> Ordering {
    for ((sort, left), right) in sorts.iter().zip(left).zip(right) {
        let found = match (left.is_null(), right.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if sort.nulls_first => Ordering::Less,
            (true, false) => Ordering::Greater,
            (false, true) if sort.nulls_first => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) if sort.descending => right.cmp(left),
            (false, false) => left.cmp(right),
        };
        if found != Ordering::Equal {
            return found;
        }
    }
    Ordering::Equal
}

impl Session {
    /// The rows that fit the filter, in the order in which they are stored.
    pub(super) async fn find(&mut self, run: &Run, select: &Select) -> SqlResult<Vec<Joined>> {
        let joined = self.unit(|environment| environment.join(run, select)).await?;
        let Some(filter) = &select.filter else { return Ok(joined) };
        let fits = self
            .each(&joined, |environment, one| environment.is_true(filter, run.frame(&one.row)))
            .await?;
        let kept = joined.into_iter().zip(fits).filter(|(_, fits)| *fits);
        Ok(kept.map(|(one, _)| one).collect())
    }

    pub(super) async fn select(&mut self, run: &Run, select: &Select) -> SqlResult<Vec<Row>> {
        let found = self.find(run, select).await?;
        let bases = match select.is_grouped {
            true => self.group(run, select, &found).await?,
            false => found
                .into_iter()
                .map(|joined| Basis { joined, group: Vec::new(), aggregates: Vec::new() })
                .collect(),
        };
        let limit = self.count(run, select.limit.as_ref(), "LIMIT").await?;
        let offset = self.count(run, select.offset.as_ref(), "OFFSET").await?.unwrap_or(0);
        if select.distinct {
            let rows = self.distinct(run, select, &bases, limit, offset).await?;
            self.check_size(&rows)?;
            return Ok(rows);
        }
        let mut bases = bases;
        if !select.order.is_empty() {
            bases = self.sort(run, select, bases).await?;
        }
        let locks = select.sources.iter().any(|source| source.locking.is_some());
        if locks {
            bases = self.lock_rows(run, select, bases, limit, offset).await?;
        } else {
            let kept = bases.into_iter().skip(offset).take(limit.unwrap_or(usize::MAX));
            bases = kept.collect();
        }
        let rows = self
            .each(&bases, |environment, basis| environment.row(&select.outputs, basis.frame(run)))
            .await?;
        self.check_size(&rows)?;
        Ok(rows)
    }

    pub(super) fn check_size(&self, rows: &[Row]) -> SqlResult<()> {
        let bytes: usize = rows.iter().map(|row| row_bytes(row)).sum();
        match bytes > self.shared.settings.result_bytes {
            true => Err(SqlError::new("53200", "out of memory")
                .detail("The result is larger than the simulated server keeps.")),
            false => Ok(()),
        }
    }

    async fn sort(
        &mut self,
        run: &Run,
        select: &Select,
        bases: Vec<Basis>,
    ) -> SqlResult<Vec<Basis>> {
        let nodes: Vec<Node> = select.order.iter().map(|sort| sort.node.clone()).collect();
        let keys = self
            .each(&bases, |environment, basis| environment.row(&nodes, basis.frame(run)))
            .await?;
        let mut both: Vec<(Row, Basis)> = keys.into_iter().zip(bases).collect();
        both.sort_by(|(left, _), (right, _)| order(&select.order, left, right));
        Ok(both.into_iter().map(|(_, basis)| basis).collect())
    }

    async fn distinct(
        &mut self,
        run: &Run,
        select: &Select,
        bases: &[Basis],
        limit: Option<usize>,
        offset: usize,
    ) -> SqlResult<Vec<Row>> {
        let rows = self
            .each(bases, |environment, basis| environment.row(&select.outputs, basis.frame(run)))
            .await?;
        // The keys of the order are among the outputs.
        let places: Vec<usize> = select
            .order
            .iter()
            .filter_map(|sort| select.outputs.iter().position(|output| *output == sort.node))
            .collect();
        let unique: BTreeMap<Vec<Value>, Row> =
            rows.into_iter().map(|row| (row.to_vec(), row)).collect();
        let mut rows: Vec<Row> = unique.into_values().collect();
        let key = |row: &Row| places.iter().map(|place| row[*place].clone()).collect::<Vec<_>>();
        rows.sort_by(|left, right| order(&select.order, &key(left), &key(right)));
        Ok(rows.into_iter().skip(offset).take(limit.unwrap_or(usize::MAX)).collect())
    }

    async fn group(
        &mut self,
        run: &Run,
        select: &Select,
        found: &[Joined],
    ) -> SqlResult<Vec<Basis>> {
        let inputs = self
            .each(found, |environment, joined| {
                let frame = run.frame(&joined.row);
                let group = environment.row(&select.group, frame)?;
                let mut arguments = Vec::new();
                for (_, argument) in &select.aggregates {
                    arguments.push(match argument {
                        Some(argument) => environment.value(argument, frame)?,
                        None => Value::Null,
                    });
                }
                Ok((group, arguments))
            })
            .await?;
        let mut groups: BTreeMap<Vec<Value>, Vec<Value>> = BTreeMap::new();
        let empty = || -> Vec<Value> {
            let start = |(aggregate, _): &(Aggregate, Option<Node>)| match aggregate {
                Aggregate::CountAll | Aggregate::Count => Value::Int(0),
                _ => Value::Null,
            };
            select.aggregates.iter().map(start).collect()
        };
        if select.group.is_empty() {
            groups.insert(Vec::new(), empty());
        }
        for (group, arguments) in inputs {
            let results = groups.entry(group.to_vec()).or_insert_with(&empty);
            for ((aggregate, _), (result, argument)) in
                select.aggregates.iter().zip(results.iter_mut().zip(&arguments))
            {
                *result = gather(*aggregate, std::mem::replace(result, Value::Null), argument)?;
            }
        }
        let bases: Vec<Basis> = groups
            .into_iter()
            .map(|(group, aggregates)| Basis {
                joined: Joined { row: Vec::new(), tuples: Vec::new() },
                group,
                aggregates,
            })
            .collect();
        let Some(having) = &select.having else { return Ok(bases) };
        let kept = self
            .each(&bases, |environment, basis| environment.is_true(having, basis.frame(run)))
            .await?;
        Ok(bases.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(one, _)| one).collect())
    }

    /// Locks the rows one after the other, as many as are wanted; whoever changed meanwhile
    /// is looked at again.
    async fn lock_rows(
        &mut self,
        run: &Run,
        select: &Select,
        bases: Vec<Basis>,
        limit: Option<usize>,
        offset: usize,
    ) -> SqlResult<Vec<Basis>> {
        let wanted = limit.map_or(usize::MAX, |limit| limit.saturating_add(offset));
        let mut locked = Vec::new();
        for mut basis in bases {
            if locked.len() >= wanted {
                break;
            }
            if self.lock_joined(run, select, &mut basis.joined).await? {
                locked.push(basis);
            }
        }
        Ok(locked.into_iter().skip(offset).collect())
    }

    /// False: the row is not one of the result any more, or is skipped.
    async fn lock_joined(
        &mut self,
        run: &Run,
        select: &Select,
        joined: &mut Joined,
    ) -> SqlResult<bool> {
        let mut has_changed = false;
        for (index, source) in select.sources.iter().enumerate() {
            let (Some((lock, patience)), Reads::Table(table)) = (source.locking, &source.reads)
            else {
                continue;
            };
            let Some(tuple) = joined.tuples.get(index).copied().flatten() else { continue };
            let Some((tuple, row)) = self.lock_row(run, table, tuple, lock, patience).await? else {
                return Ok(false);
            };
            if joined.tuples[index] != Some(tuple) {
                has_changed = true;
                joined.tuples[index] = Some(tuple);
                let from = source.first_column;
                joined.row[from..from + source.columns].clone_from_slice(&row);
            }
        }
        if !has_changed {
            return Ok(true);
        }
        let row = &joined.row;
        self.unit(|environment: &mut Environment<'_>| -> Evaluated<bool> {
            environment.fits(run, select, row)
        })
        .await
    }
}

fn gather(aggregate: Aggregate, so_far: Value, argument: &Value) -> SqlResult<Value> {
    if aggregate == Aggregate::CountAll {
        return Ok(Value::Int(so_far.int() + 1));
    }
    if argument.is_null() {
        return Ok(so_far);
    }
    Ok(match aggregate {
        Aggregate::CountAll | Aggregate::Count => Value::Int(so_far.int() + 1),
        Aggregate::Sum(data_type) => add(data_type, so_far, argument)?,
        Aggregate::Min if so_far.is_null() || *argument < so_far => argument.clone(),
        Aggregate::Max if so_far.is_null() || *argument > so_far => argument.clone(),
        Aggregate::All => {
            Value::Bool(so_far.bool() != Some(false) && argument.bool() == Some(true))
        }
        Aggregate::Some => {
            Value::Bool(so_far.bool() == Some(true) || argument.bool() == Some(true))
        }
        _ => so_far,
    })
}
