"""Closed forms: pure functions of floats and arrays, each with its equation, assumptions and reference.

They answer in microseconds what the simulator answers with intervals, under stronger assumptions; both are always
shown side by side. Arguments broadcast, scalars in, float out; laws of counts and searches over them take
scalars. All times [s], shares and probabilities [-]. What commands and the validation table use is here; closed forms
that only tests compare the simulator with are in `tests/oracle/theory`.

* `ettrick.sim.formulas.goodput`: when to save (Young, Daly, the exact optimum), and what Poisson failures leave of the
  time, of one kind or of several.
* `ettrick.sim.formulas.elastic`: the same of replicas that leave one by one.
* `ettrick.sim.formulas.nodes`: how many nodes are down, how many spares are needed, what a job loses while there are
  too few.
* `ettrick.sim.formulas.queues`: how long jobs wait, at which load a queue of gangs grows for ever, when shared spares
  are gone.
* `ettrick.sim.formulas.arrays`: checked arguments, laws of counts, terms of first and second order.
"""
