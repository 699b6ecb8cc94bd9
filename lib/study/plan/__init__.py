"""What the stages will take here, before they are started: time, memory and disk.

A few graphs of the collection go through the stages' own code, each in a process of its own
(:mod:`~lib.study.plan.measure`); what they took is fitted by formulae of a graph's size
(:mod:`~lib.study.plan.costs`) and added up over all graphs (:mod:`~lib.study.plan.collection`).
"""
