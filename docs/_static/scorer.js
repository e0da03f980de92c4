// Search: of pages that match equally well, tutorials come first, then how-tos, explanations, and the reference.
var Scorer = {
  score: ([page, , , , score]) =>
    score + ({tutorial: 4, howto: 3, explanation: 2, reference: 1}[page.split("/")[0]] || 0),
  // The other values are those of Sphinx.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: {0: 15, 1: 5, 2: -5},
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
