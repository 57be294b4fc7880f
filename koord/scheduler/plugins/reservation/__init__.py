"""Reservation: room on nodes that is held for pods to come, by the plugin of that name.

reserve_pod     the pod that stands for a Reservation: placed and held like any other
usable          what keeps a reservation from being placed at all
owners          whose room it is: which owners' lists a pod is on
room            what a reservation has, and what its owners use of it
selector_index  rooms by labels that the plugin's arguments name
matching        which rooms pods of one kind may use, and why not the others
fitting         whether a pod fits into a room on its node, and which room it takes
rooms           all rooms of a cluster, kept from objects alone
judges          what the plugin says of nodes
pre_allocation  which running pods a reservation takes over, to fit where their room is
operating       pods that hold their room for the one that takes their place
giving_back     what one that was made smaller gives back
growing         more room for one that is on its node
lifecycle       what the status of a Reservation says, and when it ends
keeper          which status must be written when
diagnosis       why no reservation helped a pod, for its event
service         answers for people who inspect the scheduler
unused          CPUs and devices that are held and not used, for pictures
plugin          all of it as a plugin
"""
