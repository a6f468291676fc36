// Package instancecache answers the questions of controllers that go Node by Node out of few reads of
// many instances: those asked for together are read together, an answer serves as long as its asker
// allows, and "not found" is checked by a direct read, and by the deletion guard, before anybody hears it.
//
// A question goes one way: Cache.Lookup looks into the snapshot, joins a batch where that has no answer,
// reads directly what a batch did not have, and has the deletion guard judge what would make a Node go.
//
// Errors are not remembered as answers, and the last good answer is not served beyond the age that its
// asker accepts, however long the cloud fails. It does not decide what "not found" proves: see deletionguard.
package instancecache
