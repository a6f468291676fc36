// Package places makes one provider of several: the regions of a cloud, accounts, vCenters.
// It knows nothing but the contract, and each place knows nothing of the others:
//
//   - a ref that names its place is looked up there and nowhere else; a provider ID that names
//     none, where it was seen before, or else in the first place and then in the others, which
//     are asked, too, where instances move; a bare name, in every place. Volumes, whose IDs name
//     none, are looked up in every place;
//   - what several places were asked for is KindNotFound only when every one of them says so,
//     and KindConflict when two have it;
//   - a Node's route is its own place's. How pods reach those of other places is the network's
//     matter;
//   - load balancers are the first place's, with the Nodes of that place as members;
//   - places are asked in parallel. One that does not answer delays the others only once (gate)
//     and never makes anything KindNotFound.
//
// It neither tries again nor remembers answers, save where instances are and which routes a
// place had: that is decorate's part.
package places
